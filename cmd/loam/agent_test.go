package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/loam-os/loam/agent/control"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

// cmdAgent is `agent SOCKET ANSWER ASKED` of scripts: an agent listens on
// SOCKET until the end of the script. To everything it answers what the file
// ANSWER says then, and adds to the file ASKED what it was asked.
func cmdAgent(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: agent SOCKET ANSWER ASKED")
	}

	listener, err := control.Listen(ts.MkAbs(args[0]))
	ts.Check(err)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error)
	go func() {
		served <- control.Serve(ctx, listener, scripted{ts.MkAbs(args[1]), ts.MkAbs(args[2])})
	}()

	ts.Defer(func() {
		cancel()
		ts.Check(<-served)
	})
}

// scripted is a node that answers from one file and keeps what it was asked in
// another.
type scripted struct{ answers, asked string }

// reply is what a scripted node says.
type reply struct {
	Outcome control.Outcome
	Report  control.VerifyReport
	Error   string
	Hints   []string
	Code    fault.Code
}

func (s scripted) Apply(_ context.Context, r control.ApplyRequest) (control.Outcome, error) {
	a, err := s.ask("apply", r)
	return a.Outcome, err
}

func (s scripted) Confirm(context.Context) (control.Outcome, error) {
	a, err := s.ask("confirm", struct{}{})
	return a.Outcome, err
}

func (s scripted) Rollback(_ context.Context, r control.RollbackRequest) (control.Outcome, error) {
	a, err := s.ask("rollback", r)
	return a.Outcome, err
}

func (s scripted) Verify(_ context.Context, r control.VerifyRequest) (control.VerifyReport, error) {
	a, err := s.ask("verify", r)
	return a.Report, err
}

func (s scripted) Restart(_ context.Context, r control.RestartRequest) (control.Outcome, error) {
	a, err := s.ask("restart", r)
	return a.Outcome, err
}

func (s scripted) Upgrade(
	_ context.Context, r control.UpgradeRequest,
) (control.Outcome, error) {
	a, err := s.ask("upgrade", r)
	return a.Outcome, err
}

func (s scripted) Reset(context.Context) (control.Outcome, error) {
	a, err := s.ask("reset", struct{}{})
	return a.Outcome, err
}

func (s scripted) ask(verb string, request any) (reply, error) {
	f, err := os.OpenFile(s.asked, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return reply{}, err
	}
	defer f.Close()

	text, err := json.Marshal(request)
	if err != nil {
		return reply{}, err
	}
	if _, err := fmt.Fprintf(f, "%s %s\n", verb, text); err != nil {
		return reply{}, err
	}

	var a reply
	text, err = os.ReadFile(s.answers)
	if err != nil {
		return a, err
	}
	if err := json.Unmarshal(text, &a); err != nil {
		return a, err
	}

	if a.Error == "" {
		return a, nil
	}

	failed := errors.New(a.Error)
	if a.Code != "" {
		failed = fault.With(failed, a.Code)
	}
	for _, advice := range a.Hints {
		failed = hint.With(failed, "%s", advice)
	}
	return a, failed
}
