package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/models/canon"
)

// printJSON writes one canonical line.
func printJSON(w io.Writer, v any) error {
	text, err := canon.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(text, '\n'))
	return err
}

// writeWhole makes the file appear with everything that write gives, or not at all. An existing file is replaced only
// with force.
func writeWhole(path string, force bool, write func(io.Writer) error) (err error) {
	if _, err := os.Lstat(path); err == nil && !force {
		return hint(fmt.Errorf("%s exists already", path), "name another file, or replace it with --force")
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".forge-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			_ = os.Remove(f.Name())
		}
	}()
	if err := write(f); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if force {
		return os.Rename(f.Name(), path)
	}
	if err := os.Link(f.Name(), path); err != nil { // unlike a rename it fails where somebody else was faster
		if errors.Is(err, os.ErrExist) {
			return fmt.Errorf("%s exists already", path)
		}
		return os.Rename(f.Name(), path) // a file system without links
	}
	return os.Remove(f.Name())
}

// table prints lines of a label and a value, values in one column.
func table(w io.Writer, lines ...[2]string) {
	width := 0
	for _, l := range lines {
		width = max(width, len(l[0]))
	}
	for _, l := range lines {
		fmt.Fprintln(w, strings.TrimRight(fmt.Sprintf("%-*s  %s", width, l[0], l[1]), " "))
	}
}

func instant(t models.Instant) string {
	if t == 0 {
		return "-"
	}
	return time.UnixMicro(int64(t)).UTC().Format("2006-01-02T15:04:05.000000Z")
}

// short is enough of a digest for a person to compare; --json has all of it.
func short(d models.Digest) string {
	if d.IsZero() {
		return "none"
	}
	return d.String()[:12]
}

func spent(c models.Counters) [][2]string {
	of := func(n, limit int64) string { return fmt.Sprintf("%d of %d", n, limit) }
	return [][2]string{
		{"attempt", of(c.Attempt, c.Limits.Attempts)},
		{"requests", of(c.Requests, c.Limits.Requests)},
		{"tool calls", of(c.ToolCalls, c.Limits.ToolCalls)},
		{"source reads", of(c.SourceReads, c.Limits.SourceReads)},
		{"commands", of(c.Commands, c.Limits.Commands)},
		{"input tokens", of(c.InputTokens, c.Limits.InputTokens)},
		{"output tokens", of(c.OutputTokens, c.Limits.OutputTokens)},
		{"completed rounds", fmt.Sprint(c.CompletedRounds)},
	}
}

func details(list []models.Detail) string {
	var out []string
	for _, d := range list {
		out = append(out, d.Name+"="+d.Value)
	}
	return strings.Join(out, ", ")
}
