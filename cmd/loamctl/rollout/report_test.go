package rollout

import (
	"strings"
	"testing"
	"time"

	"github.com/loam-os/loam/agent/turns"
)

func TestNoMoreNodesAreDoneThanThereAre(t *testing.T) {
	p := Progress{Rollout: turns.Rollout{Done: 52, Failed: 1}}
	if got := p.line(50); got != "["+strings.Repeat("#", width)+"] 50 of 50 nodes, 1 failed" {
		t.Error(got)
	}
}

func TestNoChunkIsLargerThanThePool(t *testing.T) {
	p, err := turns.ParsePolicy("policy", []byte(`{maxUnavailable: 2, chunks: [1, 10, 20]}`))
	if err != nil {
		t.Fatal(err)
	}
	if got := Describe(p, 3, time.Now()); got != "valid; of 3 nodes, 2 may be away; chunks end at 1, 3" {
		t.Error(got)
	}
}
