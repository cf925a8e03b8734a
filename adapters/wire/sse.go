package wire

import (
	"strings"
	"unicode/utf8"
)

// An Event is one server-sent event.
type Event struct {
	Name string // "" if the stream did not say
	Data string // lines joined by a line feed
}

// maxEvents bounds a stream; it is far above what an answer of 16 MiB can have.
const maxEvents = 1 << 18

// Events reads a whole event stream (WHATWG HTML, 9.2). Lines end with LF, CRLF or CR; comments, id and retry are read over. A
// stream that stops inside an event is Truncated, unless only its last blank line is missing, which some providers do.
func Events(body []byte) ([]Event, error) {
	if !utf8.Valid(body) {
		return nil, Fail(Malformed, "", "invalid UTF-8")
	}
	if len(body) > Limits.Bytes {
		return nil, Fail(OverLimit, "", "bytes")
	}
	text := strings.TrimPrefix(string(body), "\ufeff")
	text = strings.ReplaceAll(text, "\r\n", "\n")
	text = strings.ReplaceAll(text, "\r", "\n")
	ended := strings.HasSuffix(text, "\n")
	var events []Event
	var name string
	var data []string
	any := false
	flush := func() error {
		if any && len(data) > 0 {
			if len(events) == maxEvents {
				return Fail(OverLimit, "", "events")
			}
			events = append(events, Event{name, strings.Join(data, "\n")})
		}
		name, data, any = "", nil, false
		return nil
	}
	for _, line := range strings.Split(text, "\n") {
		if line == "" {
			if err := flush(); err != nil {
				return nil, err
			}
			continue
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "event":
			name, any = value, true
		case "data":
			data, any = append(data, value), true
		case "", "id", "retry":
		default:
			return nil, Fail(Malformed, "", "unknown field of an event")
		}
	}
	if any && !ended {
		return nil, Fail(Truncated, "", "the stream stops inside an event")
	}
	return events, flush()
}
