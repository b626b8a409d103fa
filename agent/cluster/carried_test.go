package cluster

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/loam-os/loam/agent/cluster/credentials"
	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/document"
	"github.com/loam-os/loam/test/files"
)

// The token sync writes as root to any path that it is given.
func TestTokenPathsAreChecked(t *testing.T) {
	const name = credentials.Directory + "/config-v1.150.0.yaml"
	for _, tt := range []struct{ path, want string }{
		{"/var/lib/valitail/auth-token", ""},
		{credentials.Directory + "/credentials/token", ""},
		{"/etc/shadow", "is refused"},
		{"/var/lib/loam/owed.json", "is refused"},
		{"/usr/bin/loam", "is outside the trees"},
		{"/", "is a directory"},
		{name, "is written by something else"},
		{credentials.Directory + "/credentials/kubeconfig", "is written by something else"},
		{"/etc/systemd/system/kubelet.service", "is written by something else"},
	} {
		text := strings.Replace(nodeAgentText, "/var/lib/valitail/auth-token", tt.path, 1)
		desired := config.Desired{Files: []config.File{{Path: name, Content: config.Text(text)}}}
		_, err := ReserveTokenPaths(&desired, nil)
		if tt.want == "" {
			if err != nil {
				t.Errorf("%s: %v", tt.path, err)
			}
			continue
		}

		var errs document.Errors
		if !errors.As(err, &errs) || errs[0].File != name ||
			!strings.Contains(errs[0].Problem, tt.want) {
			t.Errorf("%s: %v", tt.path, err)
		}
	}
}

func TestLargeConfigurationIsNotRead(t *testing.T) {
	open := config.Stream(strings.Repeat("0", 64), maxConfiguration+1, nil)
	desired := config.Desired{Files: []config.File{
		{Path: credentials.Directory + "/config-v1.150.0.yaml", Content: open},
	}}
	_, err := ReserveTokenPaths(&desired, nil)
	if err == nil || !strings.Contains(err.Error(), "want at most") {
		t.Error(err)
	}
}

// The error is temporary and does not start a new generation.
func TestUnreadableConfigurationIsReadAgain(t *testing.T) {
	root := files.Root(t)
	core, logs := observer.New(zap.ErrorLevel)
	c := carriedController{root: root.FS(), log: zap.New(core)}
	const name = "var/lib/gardener-node-agent/config-v1.150.0.yaml"
	want := []Token{{"gardener-valitail", "/var/lib/valitail/auth-token"}}

	var w world
	step := func() {
		t.Helper()
		if _, err := c.step(t.Context(), &w); err != nil {
			t.Fatal(err)
		}
	}

	w.status.Generation = "000001-0123456789ab"
	files.Write(t, filepath.Join(root.Name(), name), "kind: Broken")
	step()
	step()

	if w.carried.tokens != nil || logs.Len() != 1 {
		t.Errorf("tokens %v, %d errors", w.carried.tokens, logs.Len())
	}

	files.Write(t, filepath.Join(root.Name(), name), nodeAgentText)
	step()

	if diff := cmp.Diff(want, w.carried.tokens); diff != "" {
		t.Errorf("tokens (-want +got):\n%s", diff)
	}

	files.Write(t, filepath.Join(root.Name(), name), "kind: Broken")
	step() // This generation was read already.
	w.status.Generation = "000002-0123456789ab"
	step()

	if diff := cmp.Diff(want, w.carried.tokens); diff != "" || logs.Len() != 2 {
		t.Errorf("%d errors, tokens (-want +got):\n%s", logs.Len(), diff)
	}
}
