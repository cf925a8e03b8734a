package agentic

import "github.com/forge-continuity/forge/models/guestabi"

// SealedTransport stands where an HTTP transport would: it holds one consumed response and gives it to the parser once. There is
// no way out of it. What would be sent next is captured as bytes, once, and goes nowhere (REC-01, REC-02, REC-05).
//
// The zero value holds no response: it only captures.
type SealedTransport struct {
	response []byte
	has      bool
	served   int
	captured []byte
	done     bool
}

// Seal returns a transport that holds a response.
func Seal(response []byte) *SealedTransport { return &SealedTransport{response: response, has: true} }

// Receive serves the response. A second serving, or one of a transport without response, is sandbox_stopped.
func (t *SealedTransport) Receive() ([]byte, *guestabi.Refusal) {
	if !t.has {
		return nil, stopped("attempt_to_receive")
	}
	if t.served > 0 {
		return nil, stopped("second_serving")
	}
	t.served++
	return t.response, nil
}

// Capture takes the bytes of a request in place of sending it. It ends the run of whoever rendered them: a second request is
// sandbox_stopped.
func (t *SealedTransport) Capture(body []byte) *guestabi.Refusal {
	if t.done {
		return stopped("attempt_to_send")
	}
	t.captured, t.done = body, true
	return nil
}

// Send always refuses: nothing leaves.
func (t *SealedTransport) Send([]byte) *guestabi.Refusal { return stopped("attempt_to_send") }

// Served is how often the response was served: 0 or 1.
func (t *SealedTransport) Served() int { return t.served }

// Captured is the request that was captured, nil if there is none.
func (t *SealedTransport) Captured() []byte { return t.captured }
