package wire

import (
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"unicode/utf8"
)

// A Frame is one message of an AWS event stream (vnd.amazon.eventstream): its type (":event-type" or ":exception-type"), whether
// it is an exception, and the payload.
type Frame struct {
	Type      string
	Exception bool
	Payload   []byte
}

// Frames reads a whole binary event stream. Both checksums of each message must fit; only text headers are taken.
func Frames(body []byte) ([]Frame, error) {
	var frames []Frame
	if len(body) > Limits.Bytes {
		return nil, Fail(OverLimit, "", "bytes")
	}
	for len(body) > 0 {
		path := "/" + itoa(len(frames))
		if len(frames) == maxEvents {
			return nil, Fail(OverLimit, "", "events")
		}
		if len(body) < 16 {
			return nil, Fail(Truncated, path, "the stream stops inside a prelude")
		}
		total, headers := binary.BigEndian.Uint32(body), binary.BigEndian.Uint32(body[4:])
		if crc32.ChecksumIEEE(body[:8]) != binary.BigEndian.Uint32(body[8:]) {
			return nil, Fail(Malformed, path, "prelude checksum")
		}
		if total < 16 || uint64(headers)+16 > uint64(total) || total > 16<<20 {
			return nil, Fail(Malformed, path, "length")
		}
		if uint64(len(body)) < uint64(total) {
			return nil, Fail(Truncated, path, "the stream stops inside a message")
		}
		message := body[:total]
		if crc32.ChecksumIEEE(message[:total-4]) != binary.BigEndian.Uint32(message[total-4:]) {
			return nil, Fail(Malformed, path, "message checksum")
		}
		f := Frame{Payload: append([]byte{}, message[12+headers:total-4]...)}
		set, ok := frameHeaders(message[12 : 12+headers])
		if !ok {
			return nil, Fail(Malformed, path, "headers")
		}
		switch set[":message-type"] {
		case "event":
			f.Type = set[":event-type"]
		case "exception":
			f.Type, f.Exception = set[":exception-type"], true
		case "error":
			f.Type, f.Exception = set[":error-code"], true
		default:
			return nil, Fail(Kind, path, "message type")
		}
		if f.Type == "" || !utf8.Valid(f.Payload) {
			return nil, Fail(Malformed, path, "event type or payload")
		}
		frames = append(frames, f)
		body = body[total:]
	}
	return frames, nil
}

func frameHeaders(b []byte) (map[string]string, bool) {
	set := map[string]string{}
	for len(b) > 0 {
		n := int(b[0])
		if len(b) < 1+n+3 || b[1+n] != 7 {
			return nil, false
		}
		name := string(b[1 : 1+n])
		size := int(binary.BigEndian.Uint16(b[2+n:]))
		if len(b) < 4+n+size {
			return nil, false
		}
		value := string(b[4+n : 4+n+size])
		if _, twice := set[name]; twice || !utf8.ValidString(name) || !utf8.ValidString(value) {
			return nil, false
		}
		set[name] = value
		b = b[4+n+size:]
	}
	return set, true
}

// AppendFrame appends one message to an event stream.
func AppendFrame(b []byte, f Frame) []byte {
	kind, field := "event", ":event-type"
	if f.Exception {
		kind, field = "exception", ":exception-type"
	}
	var headers []byte
	for _, h := range [][2]string{{field, f.Type}, {":content-type", "application/json"}, {":message-type", kind}} {
		headers = append(headers, byte(len(h[0])))
		headers = append(headers, h[0]...)
		headers = append(headers, 7)
		headers = binary.BigEndian.AppendUint16(headers, uint16(len(h[1])))
		headers = append(headers, h[1]...)
	}
	start := len(b)
	b = binary.BigEndian.AppendUint32(b, uint32(16+len(headers)+len(f.Payload)))
	b = binary.BigEndian.AppendUint32(b, uint32(len(headers)))
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b[start:]))
	b = append(b, headers...)
	b = append(b, f.Payload...)
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b[start:]))
}

// Base64Std encodes bytes in standard base64.
func Base64Std(data []byte) string { return base64.StdEncoding.EncodeToString(data) }
