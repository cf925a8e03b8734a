package sandbox

// Open is a host for tests outside the package.
var Open = open

// Unmetered lets a host run a module without charges.
func Unmetered(c Config) Config {
	c.unmetered = true
	return c
}
