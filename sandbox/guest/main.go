// Command guest is the program inside the sandbox: the pure functions of adapters/agentic behind the guest ABI
// (models/guestabi). It is a reactor:
//
//	GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -trimpath -ldflags='-s -w' -o guest.wasm ./sandbox/guest
//
// The module never reads a clock, a random number, a file, the environment or a socket for its answer; what of these the Go
// runtime imports, the host answers with constants.
package main

func main() {}
