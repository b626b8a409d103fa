package cluster

import (
	"testing"
	"time"

	"github.com/loam-os/loam/agent/inplace"
)

func TestDecideRenewal(t *testing.T) {
	for _, tt := range []struct {
		name string
		at   time.Time
		edit func(w *world)
		want bool
	}{
		{"in time", noon, func(*world) {}, true},
		{"before its time", noon.Add(time.Second), func(*world) {}, false},
		{"while it is requested", noon, func(w *world) { w.renewing = true }, false},
		{"once it was granted", noon, func(w *world) { w.ending = true }, false},
		{
			"while the node is updated in place",
			noon,
			func(w *world) {
				w.updating = inplace.Kubelet
			},
			false,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld()
			tt.edit(&w)
			if got := decideRenewal(w, tt.at); got != tt.want {
				t.Error(got)
			}
		})
	}
}
