package pydanticai

// IsInstant reports whether s is a datetime as pydantic writes it.
func IsInstant(s string) bool { return isInstant(s) }
