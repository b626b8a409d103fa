package cluster

import (
	"errors"
	"strings"
	"testing"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/document"
)

// TestTokensStayInTheirPlaces: the sync writes as root whatever path it is given.
func TestTokensStayInTheirPlaces(t *testing.T) {
	const name = Directory + "/config-v1.150.0.yaml"
	for _, tt := range []struct{ path, want string }{
		{"/var/lib/valitail/auth-token", ""},
		{Directory + "/credentials/token", ""},
		{"/etc/shadow", "is refused"},
		{"/var/lib/loam/owed.json", "is refused"},
		{"/usr/bin/loam", "is outside the trees"},
		{"/", "is a directory"},
		{name, "is where something else writes"},
		{Directory + "/credentials/kubeconfig", "is where something else writes"},
		{"/etc/systemd/system/kubelet.service", "is where something else writes"},
	} {
		text := strings.Replace(nodeAgentText, "/var/lib/valitail/auth-token", tt.path, 1)
		desired := config.Desired{Files: []config.File{{Path: name, Content: config.Text(text)}}}
		_, err := Settle(&desired, nil)
		if tt.want == "" {
			if err != nil {
				t.Errorf("%s: %v", tt.path, err)
			}
			continue
		}

		var errs document.Errors
		if !errors.As(err, &errs) || errs[0].File != name || !strings.Contains(errs[0].Problem, tt.want) {
			t.Errorf("%s: %v", tt.path, err)
		}
	}
}

func TestALargeConfigurationIsNotRead(t *testing.T) {
	open := config.Stream(strings.Repeat("0", 64), maxConfiguration+1, nil)
	desired := config.Desired{Files: []config.File{{Path: Directory + "/config-v1.150.0.yaml", Content: open}}}
	if _, err := Settle(&desired, nil); err == nil || !strings.Contains(err.Error(), "want at most") {
		t.Error(err)
	}
}
