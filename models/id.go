package models

// MaxIDLength is the longest id in bytes (design, The journal).
const MaxIDLength = 64

// ValidID reports whether s is 1 to 64 bytes of [A-Za-z0-9._-]. Ids are case-sensitive and opaque. "." and ".." are
// refused because every id may stand alone as a path segment.
func ValidID(s string) bool {
	if len(s) == 0 || len(s) > MaxIDLength || s == "." || s == ".." {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}
