// Command guest is the module that the tests of the sandbox run: each function answers, or misbehaves, in one way.
package main

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"time"
	"unsafe"

	"github.com/forge-continuity/forge/models/canon"
	"github.com/forge-continuity/forge/models/guestabi"
)

var (
	input, output []byte
	sink          [][]byte
	uninitialised int
)

//go:wasmexport forge_abi
func abi() int32 { return guestabi.Version }

//go:wasmexport forge_alloc
func alloc(size int32) int32 {
	input = make([]byte, size)
	return int32(uintptr(unsafe.Pointer(unsafe.SliceData(input))))
}

//go:wasmexport forge_call
func call(ptr, size int32) int64 {
	var r guestabi.Request
	frames, err := guestabi.Decode(input[:size], &r)
	if err != nil {
		return answer(guestabi.Response{ABI: 1, Frames: []string{},
			Refusal: &guestabi.Refusal{Code: "request_malformed", Details: canon.Raw(`{}`)}}, nil)
	}
	ok := guestabi.Response{ABI: 1, Frames: r.Frames, Result: canon.Raw(`{}`)}
	if ok.Frames == nil {
		ok.Frames = []string{}
	}
	switch r.Function {
	case "echo":
		return answer(ok, frames)
	case "json": // parse and write, twice, what a checkpoint reader does
		for i, f := range frames {
			var v any
			if err := json.Unmarshal(f, &v); err != nil {
				return refuse("checkpoint_not_canonical")
			}
			if frames[i], err = json.Marshal(v); err != nil {
				panic(err)
			}
		}
		return answer(ok, frames)
	case "sort":
		for _, f := range frames {
			sort.Slice(f, func(i, j int) bool { return f[i] < f[j] })
		}
		return answer(ok, frames)
	case "world": // everything that could differ between two calls
		var b [16]byte
		rand.Read(b[:])
		m := map[int]int{}
		for i := range 100 {
			m[i] = i
		}
		order := ""
		for k := range m {
			order += fmt.Sprint(k, " ")
		}
		t := time.Now()
		time.Sleep(time.Second)
		_, openErr := os.Open("/etc/passwd")
		entries, _ := os.ReadDir(".")
		out := fmt.Sprintf("%x %v %s %v %v %v %v %d %d", b, t.UnixNano(), order, time.Since(t), os.Args, os.Environ(), openErr,
			len(entries), uninitialised)
		uninitialised++
		ok.Frames = []string{"world"}
		return answer(ok, [][]byte{[]byte(out)})
	case "refuse":
		return refuse("query_valid")
	case "odd_code":
		return refuse("not_in_the_table")
	case "panic":
		panic("marker-in-a-panic")
	case "stderr":
		for range 100000 {
			os.Stderr.WriteString("marker-on-stderr\n")
		}
		return answer(ok, frames)
	case "spin":
		for {
			uninitialised++
		}
	case "fill":
		b := make([]byte, 32<<20)
		for {
			clear(b)
		}
	case "grow":
		for {
			sink = append(sink, make([]byte, 1<<20))
		}
	case "recurse":
		return int64(recurse(1))
	case "exit":
		os.Exit(3)
	case "sleep":
		time.Sleep(time.Hour)
		return answer(ok, frames)
	case "deadlock":
		select {}
	case "giant":
		ok.Frames = []string{"giant"}
		return answer(ok, [][]byte{make([]byte, guestabi.MaxOutput)})
	case "bad_pointer":
		return -1 << 32
	case "bad_length":
		return int64(uintptr(unsafe.Pointer(unsafe.SliceData(input))))<<32 | 0x0fff_ffff
	case "no_header":
		return raw([]byte{0, 0, 1, 0, '{'})
	case "wrong_abi":
		ok.ABI = 2
		return answer(ok, frames)
	case "frame_count":
		ok.Frames = []string{"one", "two"}
		return answer(ok, [][]byte{{1}})
	case "frame_twice":
		ok.Frames = []string{"one", "one"}
		return answer(ok, [][]byte{{1}, {2}})
	case "neither":
		ok.Result = nil
		return answer(ok, frames)
	case "both":
		ok.Refusal = &guestabi.Refusal{Code: "query_valid", Details: canon.Raw(`{}`)}
		return answer(ok, frames)
	}
	return refuse("request_malformed")
}

//go:noinline
func recurse(n int) int {
	var pad [64]int
	pad[n%64] = recurse(n + 1)
	return pad[(n+1)%64] + 1
}

func refuse(code string) int64 {
	return answer(guestabi.Response{ABI: 1, Frames: []string{},
		Refusal: &guestabi.Refusal{Code: code, Details: canon.Raw(`{"got":1}`)}}, nil)
}

func answer(r guestabi.Response, frames [][]byte) int64 {
	b, err := guestabi.Encode(r, frames)
	if err != nil {
		panic(err)
	}
	return raw(b)
}

func raw(b []byte) int64 {
	output = b
	return int64(uintptr(unsafe.Pointer(unsafe.SliceData(b))))<<32 | int64(len(b))
}

func main() {}
