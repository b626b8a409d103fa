package publish

import (
	"strings"
	"testing"

	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/image/bundle"
)

func TestEpochsDoNotGoBack(t *testing.T) {
	f := newFixture(t)
	b := f.bundle("0.2.0")
	b.Index.Epoch = 3
	_, err := f.tryPublish(b)
	f.ok(err)

	for _, test := range []struct {
		name   string
		change func(ix *bundle.Index)
		code   fault.Code
	}{
		{"a newer release of a lower epoch", func(ix *bundle.Index) { ix.Epoch = 2 }, fault.OldEpoch},
		{"a newer release of the same epoch", func(*bundle.Index) {}, ""},
		{"an older release of a lower epoch", func(ix *bundle.Index) {
			ix.Epoch = 2
			ix.Version = "0.1.0"
		}, ""},
		{"a release of another profile", func(ix *bundle.Index) {
			ix.Epoch = 2
			ix.Profile = "metal"
		}, ""},
		{"the same release again", func(ix *bundle.Index) {
			ix.Epoch = 2
			ix.Version = "0.2.0"
		}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			ix := b.Index
			ix.Version = "0.10.0"
			test.change(&ix)
			err := CheckEpoch(t.Context(), f.dir, ix)
			if (err != nil || test.code != "") && fault.Of(err) != test.code {
				t.Errorf("%v", err)
			}
			if test.code != "" && !strings.Contains(hint.Text(err), "hint: --epoch 3, or ") {
				t.Errorf("no hint: %s", hint.Text(err))
			}
		})
	}

	if err := CheckEpoch(t.Context(), t.TempDir(), b.Index); err != nil {
		t.Errorf("no repository yet: %v", err)
	}
}
