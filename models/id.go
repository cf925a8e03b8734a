package models

// MaxIDLength is the longest id in bytes (design, The journal).
const MaxIDLength = 64

// ValidID reports whether s is 1 to 64 bytes of [A-Za-z0-9._-]. Ids are case-sensitive and opaque. "." and ".." are
// refused because every id may stand alone as a path segment.
func ValidID(s string) bool {
	return s != "." && s != ".." && within(s, MaxIDLength, false)
}

// MaxLabelLength is the longest label in bytes.
const MaxLabelLength = 128

// ValidLabel reports whether s is 1 to 128 bytes of [A-Za-z0-9._/-]: a name that a registration quotes from elsewhere, such
// as the three strings of a policy epoch. Labels never stand in a path.
func ValidLabel(s string) bool { return within(s, MaxLabelLength, true) }

func within(s string, limit int, slash bool) bool {
	if len(s) == 0 || len(s) > limit {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == '-', slash && c == '/':
		default:
			return false
		}
	}
	return true
}
