package cluster

import (
	"errors"
	"testing"
	"time"

	"github.com/loam-os/loam/agent/cluster/credentials"
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
		{"a request that was denied", credentials.ErrDenied, false, []time.Duration{30, 30}},
		{"a refused certificate", nil, true, []time.Duration{1, 2, 4, 8, 16, 30, 30}},
		{"a session that ended", nil, false, []time.Duration{0, 0}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			wait := time.Duration(0)
			for i, want := range tt.want {
				wait = joinPause(wait, tt.err, tt.refused)
				if wait != want*time.Second {
					t.Errorf("pause %d is %s, want %d s", i, wait, want)
				}
			}
		})
	}
}
