package control_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/control"
	"github.com/loam-os/loam/agent/document"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

// A node behind a socket behaves like the node itself.
func TestNode(t *testing.T) {
	t.Run("itself", func(t *testing.T) { suite(t, fakeNode{}) })
	t.Run("behind a socket", func(t *testing.T) { suite(t, start(t).Client) })
}

func suite(t *testing.T, node control.Agent) {
	t.Run("answers", func(t *testing.T) { answers(t, node) })
	t.Run("errors", func(t *testing.T) { failures(t, node) })
}

func answers(t *testing.T, node control.Agent) {
	ctx := t.Context()

	for _, test := range []struct {
		name string
		ask  func() (any, error)
		want any
	}{
		{
			name: "apply a document on trial",
			ask: func() (any, error) {
				return node.Apply(ctx,
					control.ApplyRequest{Name: "a.yaml", Document: "text\n", Try: 5 * time.Minute})
			},
			want: control.Outcome{
				Generation: "000002-b",
				From:       "000001-a",
				Digest:     "b",
				Result:     control.Trying,
				Reason:     "5m0s",
				Until:      until,
				Plan:       "a.yaml: text\n",
			},
		},
		{
			name: "apply the source again",
			ask:  func() (any, error) { return node.Apply(ctx, control.ApplyRequest{}) },
			want: control.Outcome{
				Generation: "000002-b",
				From:       "000001-a",
				Digest:     "b",
				Result:     control.Trying,
				Reason:     "0s",
				Until:      until,
				Plan:       ": ",
			},
		},
		{
			name: "confirm",
			ask:  func() (any, error) { return node.Confirm(ctx) },
			want: control.Outcome{Generation: "000002-b", Result: control.Confirmed},
		},
		{
			name: "upgrade",
			ask: func() (any, error) {
				return node.Upgrade(ctx, control.UpgradeRequest{
					From:    "https://a",
					Version: "2",
					Again:   true,
					Now:     true,
				})
			},
			want: control.Outcome{
				Result:  control.Armed,
				Version: "2",
				From:    "https://a",
				Reason:  "true true false",
			},
		},
		{
			name: "roll back to a number",
			ask: func() (any, error) {
				return node.Rollback(ctx, control.RollbackRequest{Generation: "42"})
			},
			want: control.Outcome{Generation: "42", Result: control.Applied},
		},
		{
			name: "verify with repair",
			ask: func() (any, error) {
				return node.Verify(ctx, control.VerifyRequest{Repair: true})
			},
			want: control.VerifyReport{
				Checked: 2,
				Bytes:   1 << 40,
				Bad: []control.Finding{
					{Path: "/etc/a", Problem: "mode 0600, want 0644", Repaired: true},
				},
			},
		},
		{
			name: "restart units",
			ask: func() (any, error) {
				return node.Restart(ctx,
					control.RestartRequest{Units: []string{"a.service", "b.timer"}})
			},
			want: control.Outcome{Result: control.Restarted, Unit: "[a.service b.timer]"},
		},
		{
			name: "reset",
			ask:  func() (any, error) { return node.Reset(ctx) },
			want: control.Outcome{Result: control.Reset},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := test.ask()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
		})
	}
}

func failures(t *testing.T, node control.Agent) {
	for _, test := range []struct {
		name     string
		want     string
		document document.Errors
		code     fault.Code
	}{
		{
			name:     "wrong",
			want:     errDocument.Error(),
			document: errDocument,
			code:     fault.DocumentInvalid,
		},
		{
			name:     "wrong, wrapped",
			want:     "decode: " + errDocument.Error(),
			document: errDocument,
			code:     fault.DocumentInvalid,
		},
		{name: "busy", want: "apply: another change is under way", code: fault.Busy},
		{name: "away", want: "apply: no route", code: fault.RepositoryUnreachable},
		{name: "fails", want: "disk full", code: fault.Failed},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := node.Apply(t.Context(), control.ApplyRequest{Name: test.name})
			if err == nil || err.Error() != test.want {
				t.Fatalf("error %v, want %s", err, test.want)
			}

			wrong, _ := errors.AsType[document.Errors](err)
			if diff := cmp.Diff(test.document, wrong); diff != "" {
				t.Errorf("document.Errors (-want +got):\n%s", diff)
			}

			if code := fault.Of(err); code != test.code {
				t.Errorf("code %q, want %q", code, test.code)
			}
		})
	}
}

func TestErrorKeepsItsCodeAndHint(t *testing.T) {
	_, err := start(t).Client.Upgrade(t.Context(), control.UpgradeRequest{Plan: true})
	code := fault.Of(err)
	text := hint.Text(err)
	if code != fault.AlreadyRunning || text != "upgrade: it runs already\nhint: wait" {
		t.Errorf("code %s, error %s", code, text)
	}
}
