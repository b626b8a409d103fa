package control_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/loam-os/loam/agent/control"
	"github.com/loam-os/loam/agent/document"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

// until has a fraction of a second and no zone but UTC, as JSON keeps it.
var until = time.Date(2026, 3, 1, 12, 0, 0, 5, time.UTC)

var errDocument = document.Errors{
	{
		File:    "a.yaml",
		Line:    3,
		Column:  7,
		Path:    "spec.units[2].name",
		Problem: "empty",
		Hint:    "name it",
	},
	{
		File:    "a.yaml",
		Line:    9,
		Path:    "spec.files",
		Problem: "twice",
	},
}

// fakeNode answers by the name of the document or generation, and returns its
// request, so that a lost field shows.
type fakeNode struct {
	// asked gets the name of each Apply that blocks until its context ends or
	// release has a value; ended gets its name then.
	asked, release, ended chan string
}

func (f fakeNode) Apply(ctx context.Context, r control.ApplyRequest) (control.Outcome, error) {
	switch r.Name {
	case "wrong":
		return control.Outcome{}, errDocument
	case "wrong, wrapped":
		return control.Outcome{}, fmt.Errorf("decode: %w", errDocument)
	case "busy":
		return control.Outcome{}, fmt.Errorf("apply: %w", control.ErrBusy)
	case "away":
		err := errors.New("apply: no route")
		return control.Outcome{}, fault.With(err, fault.RepositoryUnreachable)
	case "fails":
		return control.Outcome{}, errors.New("disk full")
	case "blocks":
		f.asked <- r.Name
		select {
		case <-ctx.Done():
			f.ended <- "canceled"
			return control.Outcome{}, ctx.Err()
		case <-f.release:
			f.ended <- "done"
		}
	}

	return control.Outcome{
		Generation: "000002-b",
		From:       "000001-a",
		Digest:     "b",
		Result:     control.Trying,
		Reason:     fmt.Sprint(r.Try),
		Until:      until,
		Plan:       r.Name + ": " + r.Document,
	}, nil
}

func (f fakeNode) Confirm(context.Context) (control.Outcome, error) {
	return control.Outcome{Generation: "000002-b", Result: control.Confirmed}, nil
}

func (f fakeNode) Rollback(_ context.Context, r control.RollbackRequest) (control.Outcome, error) {
	return control.Outcome{Generation: r.Generation, Result: control.Applied}, nil
}

func (f fakeNode) Verify(_ context.Context, r control.VerifyRequest) (control.VerifyReport, error) {
	bad := []control.Finding{{Path: "/etc/a", Problem: "mode 0600, want 0644", Repaired: r.Repair}}
	return control.VerifyReport{Checked: 2, Bytes: 1 << 40, Bad: bad}, nil
}

func (f fakeNode) Restart(_ context.Context, r control.RestartRequest) (control.Outcome, error) {
	return control.Outcome{Result: control.Restarted, Unit: fmt.Sprint(r.Units)}, nil
}

func (f fakeNode) Upgrade(_ context.Context, r control.UpgradeRequest) (control.Outcome, error) {
	if r.Plan {
		err := fault.With(errors.New("it runs already"), fault.AlreadyRunning)
		return control.Outcome{}, hint.With(fmt.Errorf("upgrade: %w", err), "wait")
	}
	return control.Outcome{
		Result:  control.Armed,
		Version: r.Version,
		From:    r.From,
		Reason:  fmt.Sprint(r.Again, r.Now, r.Stay),
	}, nil
}

func (f fakeNode) Reset(context.Context) (control.Outcome, error) {
	return control.Outcome{Result: control.Reset}, nil
}

// agent is a running Serve.
type agent struct {
	control.Client
	fakeNode
	stop   context.CancelFunc
	served chan error
}

// start serves a fake node on a new socket.
func start(t *testing.T) agent {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "agent.sock")
	listener, err := control.Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	return serve(t, listener, socket)
}

func serve(t *testing.T, listener net.Listener, socket string) agent {
	ctx, cancel := context.WithCancel(t.Context())
	a := agent{
		Client:   control.Client{Socket: socket},
		fakeNode: fakeNode{make(chan string), make(chan string), make(chan string, 1)},
		stop:     cancel,
		served:   make(chan error, 1),
	}

	go func() {
		a.served <- control.Serve(ctx, listener, a.fakeNode)
		close(a.served)
	}()

	t.Cleanup(func() {
		cancel()
		if err := <-a.served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})

	return a
}
