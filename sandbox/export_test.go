package sandbox

import "time"

// Open is a host for tests outside the package.
var Open = open

// Unmetered lets a host run a module without charges.
func Unmetered(c Config) Config {
	c.unmetered = true
	return c
}

// Ready waits until the host has every instance prepared that it keeps.
func Ready(h *Host) {
	for len(h.warm) < cap(h.warm) {
		time.Sleep(time.Millisecond)
	}
}
