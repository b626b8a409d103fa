package osimage

import (
	"errors"
	"path"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/test/files"
)

func TestObserve(t *testing.T) {
	const release = "IMAGE_ID=loam\nIMAGE_VERSION=9.9.9\n"
	for _, tt := range []struct {
		name, release, record string
		want                  status.Status
		wantErr               string
	}{
		{
			name:    "a node under a plain systemd has no record of its boot",
			release: release,
			want:    status.Status{ImageID: "loam", ImageVersion: "9.9.9"},
		},
		{
			name:    "a node that /init has started",
			release: release,
			record:  `{"slot": "A", "rootHash": "ab", "warnings": ["w"]}`,
			want: status.Status{
				ImageID:      "loam",
				ImageVersion: "9.9.9",
				Slot:         "A",
				RootHash:     "ab",
				Warnings:     []string{"w"},
			},
		},
		{
			name:    "a damaged record",
			release: release,
			record:  "{",
			wantErr: "read the boot record: ",
		},
		{name: "no os-release", wantErr: "read os-release: "},
		{
			name:    "another distribution",
			release: "ID=other\n",
			wantErr: "read os-release: no IMAGE_VERSION",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := files.Root(t)
			for name, text := range map[string]string{
				"usr/lib/os-release": tt.release,
				"run/loam/boot.json": tt.record,
			} {
				if text == "" {
					continue
				}

				err := errors.Join(
					root.MkdirAll(path.Dir(name), 0o755), root.WriteFile(name, []byte(text), 0o644),
				)
				if err != nil {
					t.Fatal(err)
				}
			}

			got, _, err := Observe(root)
			if tt.wantErr != "" {
				if err == nil || !strings.HasPrefix(err.Error(), tt.wantErr) {
					t.Errorf("Observe: %v, want %q", err, tt.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			ofKernel := cmpopts.IgnoreFields(status.Status{}, "Kernel", "Hostname", "SecureBoot")
			if diff := cmp.Diff(tt.want, got, ofKernel); diff != "" {
				t.Errorf("Observe (-want +got):\n%s", diff)
			}
		})
	}
}
