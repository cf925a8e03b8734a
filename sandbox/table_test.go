package sandbox_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/forge-continuity/forge/fixtures/recordings"
	"github.com/forge-continuity/forge/sandbox"
	"github.com/forge-continuity/forge/sandbox/internal/guestbuild"
)

// BenchmarkReconstruct measures the whole reconstruction of the recorded turn, with histories of about 10 to 1000 KB, in one run,
// and prints a table of medians: the same code outside; in a fresh instance that was prepared ahead, with fuel and without; the
// same with the host opened for it, its machine code on disk; and the real SDK in Python at the same work, alone and with the
// start of its process. The SDK's rows need the environments of fixtures/judge/setup.sh, in FORGE_JUDGE or where that puts them.
// CPU is that of the calling thread, which neighbours disturb less.
func BenchmarkReconstruct(b *testing.B) {
	root, err := guestbuild.Root()
	if err != nil {
		b.Fatal(err)
	}
	m, err := guestbuild.Build(root, "./sandbox/guest")
	if err != nil {
		b.Fatal(err)
	}
	cache := b.TempDir()
	metered := sandbox.Open(b, m.Wasm, sandbox.Config{CacheDir: cache, Warm: 1})
	unmetered := sandbox.Open(b, m.Sealed, sandbox.Unmetered(sandbox.Config{Warm: 1}))
	recorded, params := held(b, recordings.Versions[0])
	var table []string
	for _, size := range []int{10_000, 50_000, 200_000, 1_000_000} {
		frames := grown(b, recorded, size)
		rounds := max(3, min(30, 3_000_000/size))
		name := fmt.Sprintf("%dKB", size/1000)
		row := func(way string, n int, prepare func(), work func() error) time.Duration {
			var wall, cpu []time.Duration
			b.Run(name+"/"+way, func(b *testing.B) {
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
				for range n {
					prepare()
					began, used := time.Now(), threadTime()
					if err := work(); err != nil {
						b.Fatal(err)
					}
					wall, cpu = append(wall, time.Since(began)), append(cpu, threadTime()-used)
				}
			})
			table = append(table, fmt.Sprintf("%-8s %-44s %10s %10s", name, way, ms(median(wall)), ms(median(cpu))))
			return median(wall)
		}
		var fuel int64
		call := func(h *sandbox.Host) func() error {
			return func() error {
				r, err := h.Call(b.Context(), "reconstruct", frames, params)
				fuel = r.FuelUsed
				if err == nil && !bytes.Contains(r.ResultJSON, []byte(`"holds":[]`)) {
					err = fmt.Errorf("holds: %s", r.ResultJSON)
				}
				return err
			}
		}
		row("native", rounds, func() {}, func() error {
			if _, _, refusal := native(b, "reconstruct", frames, params); refusal != nil {
				return refusal
			}
			return nil
		})
		warm := row("sandbox, fresh instance, fuel", rounds, func() { sandbox.Ready(metered) }, call(metered))
		table[len(table)-1] += fmt.Sprintf(" %11d units", fuel)
		row("sandbox, fresh instance, no fuel", rounds, func() { sandbox.Ready(unmetered) }, call(unmetered))
		row("sandbox, host opened for it", 3, func() {}, func() error {
			h, err := sandbox.New(b.Context(), m.Wasm, sandbox.Config{CacheDir: cache, Warm: -1})
			if err != nil {
				return err
			}
			defer h.Close(b.Context())
			return call(h)()
		})
		if alone, started, err := python(root, frames, 3); err != nil {
			table = append(table, fmt.Sprintf("%-8s %-44s %s", name, "Pydantic AI "+recordings.Versions[0], err))
		} else {
			table = append(table, fmt.Sprintf("%-8s %-44s %10s", name, "Pydantic AI "+recordings.Versions[0]+", import excluded", ms(alone)),
				fmt.Sprintf("%-8s %-44s %10s %9.1fx the sandbox", name, "Pydantic AI "+recordings.Versions[0]+", process started for it", ms(started), float64(started)/float64(warm)))
		}
	}
	fmt.Printf("\n%-8s %-44s %10s %10s\n%s\n", "history", "median of", "wall", "cpu", strings.Join(table, "\n"))
}

func ms(d time.Duration) string { return fmt.Sprintf("%.2f ms", float64(d.Microseconds())/1000) }

func median(list []time.Duration) time.Duration {
	if len(list) == 0 {
		return 0
	}
	slices.Sort(list)
	return list[len(list)/2]
}

// threadTime is what the calling thread has used of a processor.
func threadTime() time.Duration {
	var u syscall.Rusage
	const thread = 1 // RUSAGE_THREAD, Linux
	if syscall.Getrusage(thread, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// python gives the turn to fixtures/judge/reconstruct.py and returns the medians of what it says of itself and of its processes.
func python(root string, frames []sandbox.Frame, n int) (alone, started time.Duration, err error) {
	env := os.Getenv("FORGE_JUDGE")
	if env == "" {
		env = filepath.Join(os.TempDir(), "forge-judge")
	}
	program := filepath.Join(env, recordings.Versions[0], "bin", "python")
	if _, err := os.Stat(program); err != nil {
		return 0, 0, fmt.Errorf("not installed (fixtures/judge/setup.sh)")
	}
	input, err := json.Marshal(map[string]string{"checkpoint": string(frames[1].Bytes), "response": string(frames[2].Bytes)})
	if err != nil {
		return 0, 0, err
	}
	var inside, whole []time.Duration
	for range n {
		cmd := exec.Command(program, filepath.Join(root, "fixtures", "judge", "reconstruct.py"))
		cmd.Stdin = bytes.NewReader(input)
		began := time.Now()
		out, err := cmd.Output()
		if err != nil {
			return 0, 0, fmt.Errorf("reconstruct.py: %w", err)
		}
		whole = append(whole, time.Since(began))
		var said struct {
			Seconds float64 `json:"seconds"`
		}
		if err := json.Unmarshal(out, &said); err != nil {
			return 0, 0, err
		}
		inside = append(inside, time.Duration(said.Seconds*float64(time.Second)))
	}
	return median(inside), median(whole), nil
}
