package rollout

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/loam-os/loam/agent/turns"
	"github.com/loam-os/loam/cmd/loamctl/kubeconfig"
)

// TestAPauseOverAPauseSaysWhatItReplaces pauses a pool whose ledger is in each state.
func TestAPauseOverAPauseSaysWhatItReplaces(t *testing.T) {
	for _, tt := range []struct {
		name, why, before string
		state             turns.State
	}{
		{"running", "", "", turns.Running},
		{"paused", "the weekend", "the weekend", turns.Paused},
		{"paused by hand", "", "without a reason", turns.Paused},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := turns.New()
			l.State = tt.state
			l.Why = tt.why
			api := fakeAPI{leasesPath + "/loam-rollout-edge": object(t, l.Annotations(nil))}
			l, before, err := Rollout{API: api, Pool: "edge"}.Pause(t.Context(), "lunch")
			if err != nil || before != tt.before || l.State != turns.Paused || l.Why != "lunch" {
				t.Errorf("before %q, %+v, %v", before, l, err)
			}
		})
	}
}

const edgeLease = leasesPath + "/loam-rollout-edge"

// busyAPI is an API server whose nodes write the ledger between each read and the write
// that follows, by write, which is called with the count of reads so far, until it returns
// false. An update after a write conflicts.
type busyAPI struct {
	fakeAPI
	write     func(l *turns.Ledger, reads int) bool
	forbidden string // A method that is forbidden.

	reads  int
	isOver bool
	wrote  bool
}

// Do implements [API].
func (b *busyAPI) Do(ctx context.Context, method, path string, body, into any) error {
	switch {
	case method == b.forbidden:
		return &kubeconfig.StatusError{Code: http.StatusForbidden}
	case method == http.MethodPut && b.wrote:
		return &kubeconfig.StatusError{Code: http.StatusConflict}
	}
	err := b.fakeAPI.Do(ctx, method, path, body, into)
	if method != http.MethodGet || err != nil || b.isOver {
		b.wrote = false
		return err
	}

	l := b.ledger()
	b.reads++
	b.wrote = b.write(&l, b.reads)
	b.isOver = !b.wrote
	if b.isOver {
		return nil
	}
	text, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"name":        "loam-rollout-edge",
		"annotations": l.Annotations(nil),
	}})
	b.fakeAPI[edgeLease] = string(text)
	return err
}

// ledger returns the ledger as it is.
func (b *busyAPI) ledger() turns.Ledger {
	var object map[string]any
	_ = json.Unmarshal([]byte(b.fakeAPI[edgeLease]), &object)
	l, err := turns.ReadLedger(annotationsOf(object))
	if err != nil {
		panic(err)
	}
	return l
}

// TestAPauseGoesThroughInABusyPool pauses a pool whose nodes write each time, without an
// end or 300 times.
func TestAPauseGoesThroughInABusyPool(t *testing.T) {
	for _, tt := range []struct {
		name, forbidden string
		writes, reads   int
	}{
		{"by a patch", "", 1_000_000, 1},
		{"without the right to patch", http.MethodPatch, 300, 301},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := turns.New()
				l.State = turns.Running
				api := &busyAPI{
					fakeAPI:   fakeAPI{edgeLease: object(t, l.Annotations(nil))},
					forbidden: tt.forbidden,
					write: func(l *turns.Ledger, reads int) bool {
						l.Done = reads
						return reads <= tt.writes
					},
				}

				_, _, err := Rollout{API: api, Pool: "edge"}.Pause(t.Context(), "stop")
				got := api.ledger()
				if err != nil || got.State != turns.Paused || got.Why != "stop" {
					t.Errorf("%+v, %v", got, err)
				}
				if api.reads != tt.reads || got.Done != min(tt.reads, tt.writes) {
					t.Errorf("%d reads, and %d writes of nodes are there", api.reads, got.Done)
				}
			})
		})
	}
}

// TestAPauseKeepsWhatStopsAtTheSameTime has a node write between the read and the patch.
func TestAPauseKeepsWhatStopsAtTheSameTime(t *testing.T) {
	halted := turns.New()
	halted.State = turns.Running
	halted.Halted = "node-1: no"
	running := turns.New()
	running.State = turns.Running

	for _, tt := range []struct {
		name          string
		before, after turns.Ledger
		halted        string
		err           string
	}{
		{"the configuration is halted", running, halted, "node-1: no", ""},
		{"the halted one is replaced", halted, running, "", ""},
		{"it stays halted", halted, halted, "node-1: no", ""},
		{"the ledger is made again", running, turns.New(), "", "the ledger is being restored"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			api := &busyAPI{
				fakeAPI: fakeAPI{edgeLease: object(t, tt.before.Annotations(nil))},
				write: func(l *turns.Ledger, reads int) bool {
					*l = tt.after
					return reads == 1
				},
			}
			_, _, err := Rollout{API: api, Pool: "edge"}.Pause(t.Context(), "stop")
			if fmt.Sprint(err) != tt.err && (err != nil || tt.err != "") {
				t.Fatal(err)
			}

			got := api.ledger()
			if got.Halted != tt.halted || (got.State == turns.Paused) != (tt.err == "") {
				t.Errorf("%+v", got)
			}
		})
	}
}

// TestAHaltByHandOutlivesAPause: a person has written the state and the reason only.
func TestAHaltByHandOutlivesAPause(t *testing.T) {
	api := &busyAPI{
		fakeAPI: fakeAPI{edgeLease: object(t, map[string]string{
			"rollout.loam.dev/state": "halted",
			"rollout.loam.dev/why":   "it looks bad",
		})},
		isOver: true,
	}
	_, _, err := Rollout{API: api, Pool: "edge"}.Pause(t.Context(), "stop")
	if got := api.ledger(); err != nil || got.Halted != "it looks bad" || got.Why != "stop" {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestAPauseThatIsInvalidEnds: an API server that refuses it for good is not asked for a
// minute.
func TestAPauseThatIsInvalidEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := turns.New()
		l.State = turns.Running
		begun := time.Now()
		api := &busyAPI{
			fakeAPI: fakeAPI{edgeLease: object(t, l.Annotations(nil))},
			write: func(l *turns.Ledger, reads int) bool {
				l.State = []turns.State{turns.Running, turns.Paused}[reads%2]
				return true
			},
		}
		_, _, err := Rollout{API: api, Pool: "edge"}.Pause(t.Context(), "stop")
		if !isStatus(err, http.StatusUnprocessableEntity) || time.Since(begun) > time.Second {
			t.Errorf("%v after %s", err, time.Since(begun))
		}
	})
}

// TestAPauseThatNeverComesFirstEnds: after about a minute, without the right to patch.
func TestAPauseThatNeverComesFirstEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := turns.New()
		l.State = turns.Running
		begun := time.Now()
		api := &busyAPI{
			fakeAPI:   fakeAPI{edgeLease: object(t, l.Annotations(nil))},
			forbidden: http.MethodPatch,
			write:     func(*turns.Ledger, int) bool { return true },
		}
		_, _, err := Rollout{API: api, Pool: "edge"}.Pause(t.Context(), "stop")
		took := time.Since(begun)
		if !isStatus(err, http.StatusConflict) || took < patience || took > patience+time.Second {
			t.Errorf("%v after %s", err, took)
		}
	})
}
