// Package agentic knows the checkpoint record of Firefly Agentic (agentic-checkpoint/1), the catalogue of what is reviewed, and
// how a consumed response becomes a derived checkpoint. It is the whole program of the sandbox's guest: pure, and the same
// natively and as WASM.
package agentic

import (
	"strconv"
	"strings"

	"github.com/forge-continuity/forge/models/canon"
	"github.com/forge-continuity/forge/models/guestabi"
)

// Call answers one message of the guest ABI. It is the whole guest: pure, total, and the same natively and as WASM. Whatever
// the message is, the answer is a message; a panic inside becomes the refusal sandbox_stopped with reason "panic".
func Call(message []byte) (answer []byte) {
	defer func() {
		if recover() != nil {
			answer = refuse(stopped("panic"))
		}
	}()
	var request guestabi.Request
	frames, err := guestabi.Decode(message, &request)
	if err != nil {
		return refuse(malformed("header", "not a message"))
	}
	if request.ABI != guestabi.Version {
		return refuse(malformed("abi", "unknown version"))
	}
	if len(frames) != len(request.Frames) {
		return refuse(malformed("frames", "names and frames differ in number"))
	}
	function, ok := functions[request.Function]
	if !ok {
		return refuse(malformed("function", "unknown"))
	}
	byName := make(map[string][]byte, len(frames))
	for i, name := range request.Frames {
		if _, twice := byName[name]; twice || !contains(function.frames, name) && !function.outcome(name) {
			return refuse(malformed("frames", "unknown or repeated frame"))
		}
		byName[name] = frames[i]
	}
	for _, name := range function.frames {
		if _, ok := byName[name]; !ok {
			return refuse(malformed("frames", "missing frame"))
		}
	}
	out, refusal := function.run(byName, request.Params)
	if refusal != nil {
		return refuse(refusal)
	}
	return reply(out)
}

// An entry is one function of the guest: the frames it takes, all of them needed, whether it also takes retained outcomes as
// frames outcome_<position>, and what it does.
type entry struct {
	frames   []string
	outcomes bool
	run      func(frames map[string][]byte, params canon.Raw) (*output, *guestabi.Refusal)
}

// outcome reports whether the frame is a retained outcome that the function takes.
func (e entry) outcome(name string) bool {
	_, ok := outcomePosition(name)
	return e.outcomes && ok
}

// outcomePosition reads the position out of the name of an outcome's frame, written without leading zeros.
func outcomePosition(name string) (int, bool) {
	text, ok := strings.CutPrefix(name, "outcome_")
	n, err := strconv.Atoi(text)
	return n, ok && err == nil && n >= 0 && strconv.Itoa(n) == text
}

// outcomesOf are the retained outcomes among the frames, by position.
func outcomesOf(frames map[string][]byte) map[int][]byte {
	outcomes := map[int][]byte{}
	for name, data := range frames {
		if n, ok := outcomePosition(name); ok {
			outcomes[n] = data
		}
	}
	return outcomes
}

var functions = map[string]entry{
	"observe":     {frames: []string{"catalogue", "checkpoint", "response"}, outcomes: true, run: callObserve},
	"reproduce":   {frames: []string{"catalogue", "checkpoint"}, run: callReproduce},
	"contract":    {frames: []string{"catalogue", "contract"}, run: callContract},
	"inspect":     {frames: []string{"catalogue", "checkpoint"}, run: callInspect},
	"validate":    {frames: []string{"catalogue", "query", "schema"}, run: callValidate},
	"reconstruct": {frames: []string{"catalogue", "checkpoint", "response", "wire", "contract"}, outcomes: true, run: callReconstruct},
}

// output is the answer of a function before it is a message.
type output struct {
	result any
	names  []string
	frames [][]byte
}

func (o *output) add(name string, frame []byte) {
	o.names = append(o.names, name)
	o.frames = append(o.frames, frame)
}

func reply(o *output) []byte {
	result, err := canon.Marshal(o.result)
	if err != nil {
		return refuse(stopped("result_not_canonical"))
	}
	names := o.names
	if names == nil {
		names = []string{}
	}
	size := 4 << 10
	for _, f := range o.frames {
		size += 4 + len(f)
	}
	if size+len(result) > guestabi.MaxOutput {
		return refuse(stopped("output_too_large"))
	}
	b, err := guestabi.Encode(guestabi.Response{ABI: guestabi.Version, Frames: names, Result: result}, o.frames)
	if err != nil {
		return refuse(stopped("result_not_canonical"))
	}
	return b
}

func refuse(r *guestabi.Refusal) []byte {
	b, err := guestabi.Encode(guestabi.Response{ABI: guestabi.Version, Frames: []string{}, Refusal: r}, nil)
	if err != nil {
		// Details are made here from fixed members, so this is a broken program; the host still gets a message.
		b, _ = guestabi.Encode(guestabi.Response{ABI: guestabi.Version, Frames: []string{}, Refusal: stopped("refusal_not_canonical")}, nil)
	}
	return b
}
