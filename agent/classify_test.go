package agent

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/decode"
	"github.com/loam-os/loam/agent/turns"
)

func TestAConfigurationWithErrorsDisturbsNothing(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	image, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer image.Close()

	d := decode.Decoder{Hostname: "me", Image: image}
	got, err := Classify(t.Context(), d, apply.Planner{}, []byte("spec: ["))
	if err != nil || got != turns.None {
		t.Errorf("%s %v", got, err)
	}
}
