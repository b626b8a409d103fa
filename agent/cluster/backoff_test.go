package cluster

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestPauseBetweenJoinAttempts(t *testing.T) {
	group := schema.GroupResource{Resource: "certificatesigningrequests"}
	forbidden := apierrors.NewForbidden(group, "a", nil)
	for _, tt := range []struct {
		name    string
		err     error
		refused bool
		want    []time.Duration
	}{
		{
			"an API server that does not answer",
			errors.New("connection refused"),
			false,
			[]time.Duration{1, 1, 1},
		},
		{"a forbidden request", forbidden, false, []time.Duration{1, 2, 4, 8, 16, 32, 40, 40}},
		{
			"an unknown token",
			apierrors.NewUnauthorized("unknown"),
			false,
			[]time.Duration{1, 2, 4, 8, 16, 32, 40, 40},
		},
		{
			"a conflict",
			apierrors.NewConflict(group, "a", nil),
			false,
			[]time.Duration{1, 1},
		},
		{"a request that was denied", ErrDenied, false, []time.Duration{30, 30}},
		{"a refused certificate", nil, true, []time.Duration{1, 2, 4, 8, 16, 30, 30}},
		{"a session that ended", nil, false, []time.Duration{0, 0}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			hold := time.Duration(0)
			for i, want := range tt.want {
				hold = nextHold(hold, tt.err, tt.refused)
				if hold != want*time.Second {
					t.Errorf("pause %d is %s, want %d s", i, hold, want)
				}
			}
		})
	}
}

func TestNewTokenIsTriedAtOnce(t *testing.T) {
	for _, tt := range []struct {
		name, token string
		waits       time.Duration
		want        bool
	}{
		{"the same", "old", 40 * time.Second, false},
		{"another", "new", 10 * time.Second, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k, dir := newTestStore(t)
			place(t, dir, tokenName, "old")
			j := joiner{Env{Root: k.dir.Root()}}
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				time.AfterFunc(10*time.Second-time.Millisecond, func() {
					if err := os.WriteFile(filepath.Join(dir, tokenName), []byte(tt.token),
						0o600); err != nil {
						t.Error(err)
					}
				})
				if got := j.pauseFor(t.Context(), 40*time.Second, "old"); got != tt.want {
					t.Errorf("another token: %v", got)
				}
				if waited := time.Since(begin); waited != tt.waits {
					t.Errorf("waited %s", waited)
				}
			})
		})
	}
}
