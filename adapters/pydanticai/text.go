package pydanticai

import "strconv"

func itoa(n int) string { return strconv.Itoa(n) }

// MaxInstantUS is the last microsecond of the year 9999, the last that FormatInstant and the SDK can write; the first is
// MinInstantUS, the start of the year 1.
const (
	MinInstantUS = -62135596800000000
	MaxInstantUS = 253402300799999999
)

// FormatInstant returns microseconds since 1970 UTC as pydantic writes an aware datetime: ISO 8601 with Z, and six digits of
// fraction unless they are zero. It panics outside MinInstantUS to MaxInstantUS.
func FormatInstant(us int64) string {
	if us < MinInstantUS || us > MaxInstantUS {
		panic("pydanticai: instant outside the years 1 to 9999")
	}
	const day = 86400 * 1000000
	days, rest := us/day, us%day
	if rest < 0 {
		days--
		rest += day
	}
	y, m, d := civil(days)
	sec, frac := rest/1000000, rest%1000000
	b := make([]byte, 0, 27)
	b = digits(b, y, 4)
	b = digits(append(b, '-'), m, 2)
	b = digits(append(b, '-'), d, 2)
	b = digits(append(b, 'T'), sec/3600, 2)
	b = digits(append(b, ':'), sec/60%60, 2)
	b = digits(append(b, ':'), sec%60, 2)
	if frac != 0 {
		b = digits(append(b, '.'), frac, 6)
	}
	return string(append(b, 'Z'))
}

func digits(b []byte, n int64, width int) []byte {
	from := len(b)
	for range width {
		b = append(b, '0')
	}
	for i := len(b) - 1; i >= from; i-- {
		b[i] = byte('0' + n%10)
		n /= 10
	}
	return b
}

// civil returns the date of a day counted from 1970-01-01 (Howard Hinnant, "chrono-compatible low-level date algorithms").
func civil(days int64) (y, m, d int64) {
	z := days + 719468
	era := z / 146097
	if z < 0 {
		era = (z - 146096) / 146097
	}
	doe := z - era*146097
	yoe := (doe - doe/1460 + doe/36524 - doe/146096) / 365
	doy := doe - (365*yoe + yoe/4 - yoe/100)
	mp := (5*doy + 2) / 153
	d = doy - (153*mp+2)/5 + 1
	m = mp + 3
	if m > 12 {
		m -= 12
	}
	y = yoe + era*400
	if m <= 2 {
		y++
	}
	return y, m, d
}

// isInstant reports whether s is a datetime as pydantic writes it: fraction of six digits and not zero, offset Z, ±HH:MM other
// than zero, or none.
func isInstant(s string) bool {
	if len(s) < 19 || s[4] != '-' || s[7] != '-' || s[10] != 'T' || s[13] != ':' || s[16] != ':' {
		return false
	}
	y, ok1 := number(s[0:4])
	mo, ok2 := number(s[5:7])
	d, ok3 := number(s[8:10])
	h, ok4 := number(s[11:13])
	mi, ok5 := number(s[14:16])
	sec, ok6 := number(s[17:19])
	if !(ok1 && ok2 && ok3 && ok4 && ok5 && ok6) || y < 1 || mo < 1 || mo > 12 || d < 1 || d > daysIn(y, mo) || h > 23 || mi > 59 || sec > 59 {
		return false
	}
	rest := s[19:]
	if len(rest) >= 7 && rest[0] == '.' {
		if frac, ok := number(rest[1:7]); !ok || frac == 0 {
			return false
		}
		rest = rest[7:]
	}
	if rest == "" || rest == "Z" {
		return true
	}
	if len(rest) != 6 || rest[0] != '+' && rest[0] != '-' || rest[3] != ':' {
		return false
	}
	oh, ok1 := number(rest[1:3])
	om, ok2 := number(rest[4:6])
	return ok1 && ok2 && oh < 24 && om < 60 && oh+om > 0
}

func daysIn(y, m int) int {
	switch m {
	case 4, 6, 9, 11:
		return 30
	case 2:
		if y%4 == 0 && (y%100 != 0 || y%400 == 0) {
			return 29
		}
		return 28
	}
	return 31
}

func number(s string) (int, bool) {
	n := 0
	for i := 0; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		n = n*10 + int(s[i]-'0')
	}
	return n, true
}

// isDecimal reports whether s is a finite number as str(Decimal) writes it: digits, at most one point, and an exponent with
// sign and without padding.
func isDecimal(s string) bool {
	if s != "" && s[0] == '-' {
		s = s[1:]
	}
	i := 0
	for i < len(s) && s[i] >= '0' && s[i] <= '9' {
		i++
	}
	if i == 0 || i > 1 && s[0] == '0' {
		return false
	}
	if i < len(s) && s[i] == '.' {
		from := i + 1
		for i++; i < len(s) && s[i] >= '0' && s[i] <= '9'; i++ {
		}
		if i == from {
			return false
		}
	}
	if i == len(s) {
		return true
	}
	if s[i] != 'E' || i+2 >= len(s) || s[i+1] != '+' && s[i+1] != '-' || s[i+2] == '0' || len(s)-i > 6 {
		return false
	}
	_, ok := number(s[i+2:])
	return ok
}

// isURLBase64 reports whether s is padded base64 in the URL-safe alphabet, in the one spelling of its bytes.
func isURLBase64(s string) bool {
	if len(s)%4 != 0 {
		return false
	}
	pad := 0
	for pad < 2 && pad < len(s) && s[len(s)-1-pad] == '=' {
		pad++
	}
	last := 0
	for i := 0; i < len(s)-pad; i++ {
		switch c := s[i]; {
		case 'A' <= c && c <= 'Z':
			last = int(c - 'A')
		case 'a' <= c && c <= 'z':
			last = int(c-'a') + 26
		case '0' <= c && c <= '9':
			last = int(c-'0') + 52
		case c == '-':
			last = 62
		case c == '_':
			last = 63
		default:
			return false
		}
	}
	// The bits that padding leaves over must be zero.
	return pad == 0 || pad == 1 && last&3 == 0 || pad == 2 && last&15 == 0
}
