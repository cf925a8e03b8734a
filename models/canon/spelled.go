package canon

// spelled reports whether the text is canonical for certain. It knows the common case alone: integers of up to 18 digits, and
// strings of printable ASCII without an escape. Of other text it says false, and the long way has to look; what it says true of,
// the long way leaves as it is (FuzzSpelled). It is there because Go's encoder writes nearly all of Forge's own values in the
// canonical spelling already, and showing that with the long way took three quarters of the time of a replay.
func spelled(text []byte) bool {
	end, ok := spelledValue(text, 0, 0)
	return ok && end == len(text)
}

// spelledValue reads the value at i and returns where it ends.
func spelledValue(b []byte, i, depth int) (end int, ok bool) {
	if i >= len(b) || depth > MaxDepth-1 {
		return i, false
	}
	switch c := b[i]; {
	case c == '"':
		return spelledString(b, i)
	case c == '{':
		return spelledObject(b, i+1, depth+1)
	case c == '[':
		return spelledArray(b, i+1, depth+1)
	case c == '-' || '0' <= c && c <= '9':
		return spelledInteger(b, i)
	case c == 't':
		return word(b, i, "true")
	case c == 'f':
		return word(b, i, "false")
	case c == 'n':
		return word(b, i, "null")
	}
	return i, false
}

func word(b []byte, i int, w string) (int, bool) {
	return i + len(w), len(b)-i >= len(w) && string(b[i:i+len(w)]) == w
}

func spelledString(b []byte, i int) (int, bool) {
	for i++; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			return i + 1, true
		case c < ' ' || c > '~' || c == '\\':
			return i, false
		}
	}
	return i, false
}

func spelledInteger(b []byte, i int) (int, bool) {
	if b[i] == '-' {
		i++
	}
	from := i
	for i < len(b) && '0' <= b[i] && b[i] <= '9' {
		i++
	}
	switch n := i - from; {
	case n == 0 || n > 18:
		return i, false
	case b[from] == '0': // 0 and nothing else: neither 007 nor -0
		return i, n == 1 && (from == 0 || b[from-1] != '-')
	}
	return i, true
}

// spelledObject reads from behind the brace. The names of members rise, which also says that none is there twice; in ASCII the
// order of bytes is that of UTF-16.
func spelledObject(b []byte, i, depth int) (int, bool) {
	if i < len(b) && b[i] == '}' {
		return i + 1, true
	}
	var before []byte
	for first := true; ; first = false {
		if i >= len(b) || b[i] != '"' {
			return i, false
		}
		end, ok := spelledString(b, i)
		if !ok || end >= len(b) || b[end] != ':' {
			return end, false
		}
		name := b[i+1 : end-1]
		if !first && string(before) >= string(name) {
			return i, false
		}
		before = name
		if i, ok = spelledValue(b, end+1, depth); !ok || i >= len(b) {
			return i, false
		}
		i++
		switch b[i-1] {
		case '}':
			return i, true
		case ',':
		default:
			return i, false
		}
	}
}

func spelledArray(b []byte, i, depth int) (int, bool) {
	if i < len(b) && b[i] == ']' {
		return i + 1, true
	}
	for {
		var ok bool
		if i, ok = spelledValue(b, i, depth); !ok || i >= len(b) {
			return i, false
		}
		i++
		switch b[i-1] {
		case ']':
			return i, true
		case ',':
		default:
			return i, false
		}
	}
}
