package pyjson

// plain returns the index of the first byte of s, from i on, that is not printable ASCII other than the quotation mark and the
// backslash: what can stand in a string as it is, read and written. It looks at eight bytes at a time.
func plain(s string, i int) int {
	const (
		ones  = 0x0101010101010101
		highs = 0x8080808080808080
	)
	for ; i+8 <= len(s); i += 8 {
		w := uint64(s[i]) | uint64(s[i+1])<<8 | uint64(s[i+2])<<16 | uint64(s[i+3])<<24 |
			uint64(s[i+4])<<32 | uint64(s[i+5])<<40 | uint64(s[i+6])<<48 | uint64(s[i+7])<<56
		quote, slash, del := w^(ones*'"'), w^(ones*'\\'), w^(ones*0x7f)
		// A byte below 0x20, equal to one of the three, or above 0x7f sets its high bit; a borrow can only set more of them.
		if ((w-ones*0x20)|(quote-ones)|(slash-ones)|(del-ones)|w)&highs != 0 {
			break
		}
	}
	for ; i < len(s); i++ {
		if c := s[i]; c < 0x20 || c == '"' || c == '\\' || c >= 0x7f {
			break
		}
	}
	return i
}
