package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loam-os/loam/agent/control"
	"github.com/loam-os/loam/test/terminal"
)

// verifying is a node that reports a quarter, and goes on when it may.
type verifying struct {
	scripted
	goOn <-chan struct{}
}

func (v verifying) Verify(
	_ context.Context, r control.VerifyRequest,
) (control.VerifyReport, error) {
	r.Progress(1<<20, 4<<20)
	<-v.goOn
	r.Progress(4<<20, 4<<20)
	return control.VerifyReport{Checked: 7, Bytes: 4 << 20}, nil
}

// TestVerifyShowsABar has an agent verify, and the command on a terminal, and
// elsewhere.
func TestVerifyShowsABar(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "agent.sock")
	listener, err := control.Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	goOn := make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error)
	go func() { served <- control.Serve(ctx, listener, verifying{goOn: goOn}) }()
	defer func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()

	verify := func(progress *os.File, args ...string) (string, error) {
		var out bytes.Buffer
		cmd := root()
		cmd.SetOut(&out)
		cmd.SetErr(progress)
		cmd.SetArgs(append([]string{"verify", "--socket", socket}, args...))
		err := cmd.ExecuteContext(t.Context())
		return out.String(), err
	}

	t.Setenv("TERM", "linux")
	tty := terminal.Open(t, 80, 25)
	ended := make(chan error, 1)
	go func() {
		_, err := verify(tty.Program)
		ended <- err
	}()
	const quarter = "verify   [#####               ]  25 %  1.0 of 4.0 MiB"
	var shown strings.Builder
	for part := make([]byte, 256); !strings.Contains(shown.String(), quarter); {
		n, err := tty.User.Read(part)
		if err != nil {
			t.Fatalf("%v after %q", err, shown.String())
		}
		shown.Write(part[:n])
	}
	close(goOn)
	if err := <-ended; err != nil {
		t.Error(err)
	}

	for _, args := range [][]string{nil, {"-o", "json"}} {
		file, err := os.Create(filepath.Join(t.TempDir(), "progress"))
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		out, err := verify(file, args...)
		text, readErr := os.ReadFile(file.Name())
		if err != nil || readErr != nil || len(text) > 0 || !strings.Contains(out, "7") {
			t.Errorf("%q: %v %v, progress %q, printed %q", args, err, readErr, text, out)
		}
	}
}
