package main

import (
	"bufio"
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"testing/synctest"

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

// TestAClientThatStops says half of what it wants, or takes nothing of what it asked for: its connection is closed. Time is not real.
func TestAClientThatStops(t *testing.T) {
	for _, request := range []string{
		"POST /file HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n",
		"GET /file HTTP/1.1\r\nHost: a\r\n\r\n",
	} {
		synctest.Test(t, func(t *testing.T) {
			client, server := net.Pipe()
			l := make(listener, 1)
			l <- watched{server, sync.OnceFunc(func() { close(l) })}
			ended := make(chan error, 1)
			go func() {
				ended <- serve(t.Context(), l, updates(fstest.MapFS{"file": {Data: make([]byte, 1<<20)}}, io.Discard))
			}()
			if _, err := io.WriteString(client, request); err != nil {
				t.Fatal(err)
			}
			<-ended
		})
	}
}

// listener has the connections that are in it, until it is closed.
type listener chan net.Conn

func (l listener) Accept() (net.Conn, error) {
	if c, ok := <-l; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (listener) Close() error   { return nil }
func (listener) Addr() net.Addr { return &net.TCPAddr{} }

// watched says that it is closed.
type watched struct {
	net.Conn
	closed func()
}

func (w watched) Close() error {
	w.closed()
	return w.Conn.Close()
}
