package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestStatusOfThisNodeHasTheUptimeOfNow(t *testing.T) {
	file := filepath.Join(t.TempDir(), "status.json")
	if err := os.WriteFile(file, []byte(`{"uptime": 12000000000}`), 0o600); err != nil {
		t.Fatal(err)
	}

	for _, tt := range []struct {
		name   string
		uptime func() time.Duration
		want   string
	}{
		{"this node", func() time.Duration { return time.Minute }, "uptime       60.0 s"},
		{"another node", nil, "uptime       12.0 s"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out strings.Builder
			if err := showStatus(&out, file, "table", tt.uptime); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(out.String(), tt.want) {
				t.Errorf("no %q in\n%s", tt.want, &out)
			}
		})
	}
}
