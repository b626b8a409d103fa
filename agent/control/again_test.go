package control_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/loam-os/loam/agent/control"
)

// restarting is a node that restarts when it gets a request.
type restarting struct {
	fakeNode
	end context.CancelFunc
}

func (r restarting) Reset(context.Context) (control.Outcome, error) {
	defer r.end()
	return control.Outcome{}, fmt.Errorf("reset: %w", control.ErrRestarting)
}

func TestRequestIsRepeatedAfterARestart(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "agent.sock")
	listener, err := control.Listen(socket)
	if err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	served := make(chan struct{})
	t.Cleanup(func() { <-served }) // t.Context ends earlier.

	go func() {
		defer close(served)
		err := control.Serve(ctx, listener, restarting{end: cancel})
		if err == nil {
			listener, err = control.Listen(socket)
		}

		if err == nil {
			err = control.Serve(t.Context(), listener, fakeNode{})
		}

		if err != nil {
			t.Error(err)
		}
	}()

	o, err := (control.Client{Socket: socket}).Reset(t.Context())
	if err != nil || o.Result != control.Reset {
		t.Errorf("%+v %v", o, err)
	}
}

func TestAbsentAgentIsNotWaitedFor(t *testing.T) {
	client := control.Client{Socket: filepath.Join(t.TempDir(), "agent.sock")}
	if _, err := client.Reset(t.Context()); !errors.Is(err, control.ErrNoAgent) {
		t.Error(err)
	}
}
