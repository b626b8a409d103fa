package main

import (
	"bufio"
	"context"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/loam-os/loam/image/repository"
)

// TestServe reads a directory as a node does, by what the command prints.
func TestServe(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte("0123456789"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "out")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd := serveCommand()
	cmd.SetArgs([]string{dir, "--listen", "127.0.0.1:0"})
	cmd.SetOut(w)
	ended := make(chan error, 1)
	go func() {
		ended <- cmd.ExecuteContext(ctx)
		w.Close()
	}()
	lines := bufio.NewScanner(out)
	expect := func(pattern string) string {
		t.Helper()
		if !lines.Scan() {
			t.Fatalf("no line, want %s", pattern)
		}
		m := regexp.MustCompile("^" + pattern + "$").FindStringSubmatch(lines.Text())
		if m == nil {
			t.Fatalf("printed %q, want %s", lines.Text(), pattern)
		}
		return m[len(m)-1]
	}
	s, err := repository.Open(expect(`serving \S+ at (http://127\.0\.0\.1:\d+)`))
	if err != nil {
		t.Fatal(err)
	}
	body, err := s.Range(ctx, "file", 2, 3)
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(body)
	if body.Close(); string(got) != "234" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	expect(`127\.0\.0\.1:\d+ GET "/file" "bytes=2-4" 206 3`)
	if _, err := s.Get(ctx, "none", 100); err == nil {
		t.Error("a file out of nowhere")
	}
	expect(`127\.0\.0\.1:\d+ GET "/none" 404 \d+`)
	if got, err := s.Get(ctx, "out", 1<<20); err == nil || strings.Contains(string(got), "root:") {
		t.Errorf("a link out of the directory is followed: %q", got)
	}
	expect(`127\.0\.0\.1:\d+ GET "/out" [45]\d\d \d+`)
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("error %v at the end", err)
	}
}
