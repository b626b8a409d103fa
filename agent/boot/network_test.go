package boot

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loam-os/loam/agent/networkd"
)

// TestNetworkThatWasKept: networkd has it before any agent; a record that is
// damaged leaves the image's.
func TestNetworkThatWasKept(t *testing.T) {
	for _, test := range []struct{ name, record, want, wantErr string }{
		{name: "none"},
		{
			name:   "one",
			record: `{"files": {"10-loam-lan.network": "[Match]\n", "80-loam-ethernet.network": ""}}`,
			want:   "[Match]\n",
		},
		{name: "one that is damaged", record: `{"files"`, wantErr: networkd.Record},
		{
			name:    "one that leads elsewhere",
			record:  `{"files": {"../system/a.service": ""}}`,
			wantErr: networkd.Record,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			sysroot := t.TempDir()
			run := t.TempDir()

			if test.record != "" {
				name := filepath.Join(sysroot, networkd.Record)
				if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(name, []byte(test.record), 0o644); err != nil {
					t.Fatal(err)
				}
			}

			err := putNetwork(sysroot, run)
			if (err != nil) != (test.wantErr != "") ||
				(err != nil && !strings.Contains(err.Error(), test.wantErr)) {
				t.Errorf("error %v, want one with %q", err, test.wantErr)
			}

			got, _ := os.ReadFile(filepath.Join(run, "run/systemd/network/10-loam-lan.network"))
			if string(got) != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}
