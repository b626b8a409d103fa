package main

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/uuid"

	"github.com/loam-os/loam/agent/volume"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/partitions/luks"
)

// encryptedNode makes a node with an encrypted volume, and a machine.yaml that claims
// its disk for it. The volume is the one that the node has recorded, or another.
func encryptedNode(t *testing.T, p *volume.Purpose, recorded bool) (root, document string) {
	t.Helper()
	root = t.TempDir()
	writeFile(t, filepath.Join(root, "proc/self/mountinfo"), "")
	writeFile(t, filepath.Join(root, "sys/block/vdb/size"), "131072\n")
	writeFile(t, filepath.Join(root, "sys/block/vdb/serial"), "S1\n")
	writeFile(t, filepath.Join(root, "dev/vdb"), "")

	id := uuid.New()
	disk, err := os.OpenFile(filepath.Join(root, "dev/vdb"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer disk.Close()
	if err := disk.Truncate(64 << 20); err != nil {
		t.Fatal(err)
	}
	h, _, err := luks.New(id, p.Label, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Write(disk); err != nil {
		t.Fatal(err)
	}

	if recorded {
		record, err := json.Marshal(volume.Record{
			Claim:      volume.Claim{Serial: "S1"},
			FileSystem: "ext4",
			Made:       true,
			Encryption: volume.Encryption{UUID: id.String(), Key: "00"},
		})
		if err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(root, p.RecordFile), string(record))
	}

	claim := "dataVolume: {serial: S1}\n"
	if p == volume.Etcd {
		claim = "cluster: {etcdVolume: {serial: S1}}\n"
	}
	document = filepath.Join(root, "machine.yaml")
	writeFile(t, document, "apiVersion: loam.dev/v1alpha1\nkind: Machine\n"+claim)
	return root, document
}

func TestDisksShowTheEncryptedVolumesOfTheNode(t *testing.T) {
	for _, tt := range []struct {
		purpose          *volume.Purpose
		wantText, wantIn string
	}{
		{volume.Data, "/dev/vdb: has the data volume (encrypted)\n", `"claimed": `},
		{volume.Etcd, "/dev/vdb: has the etcd volume (encrypted)\n", `"etcdClaimed": `},
	} {
		t.Run(tt.purpose.Name, func(t *testing.T) {
			root, document := encryptedNode(t, tt.purpose, true)
			if got := loam(t, nil, "disks", "--root", root, document); got != tt.wantText {
				t.Errorf("printed %q, want %q", got, tt.wantText)
			}

			const want = "{\n    \"device\": \"/dev/vdb\",\n    \"encrypted\": true,\n    \"format\": false\n  }"
			got := loam(t, nil, "disks", "--root", root, document, "-o", "json")
			if !strings.Contains(got, tt.wantIn+want) {
				t.Errorf("printed %s, want %s%s", got, tt.wantIn, want)
			}
		})
	}
}

// TestDisksWipeNoContainer: the volume of another node, or of this one before its
// state was lost, is still opened by the recovery key.
func TestDisksWipeNoContainer(t *testing.T) {
	for _, p := range volume.Purposes() {
		root, document := encryptedNode(t, p, false)
		err := showClaimed(&bytes.Buffer{}, "text", root, document)
		if err == nil || !strings.Contains(hint.Text(err), "has an encrypted "+p.Name) ||
			!strings.Contains(hint.Text(err), "cryptsetup open") ||
			strings.Contains(hint.Text(err), "wipefs") {
			t.Errorf("%s: %s", p.Name, hint.Text(err))
		}
	}
}

// TestDisksNeedTheRecordOfAVolume runs the command as a user who may not read it.
func TestDisksNeedTheRecordOfAVolume(t *testing.T) {
	root, document := encryptedNode(t, volume.Data, true)
	record := filepath.Join(root, volume.RecordFile)
	mode := os.FileMode(0)
	var as *syscall.Credential
	if os.Geteuid() == 0 {
		mode = 0o600
		as = &syscall.Credential{Uid: nobody, Gid: nobody}
		if err := os.Chmod(filepath.Dir(root), 0o711); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(record, mode); err != nil {
		t.Fatal(err)
	}

	cmd := exec.Command("/proc/self/exe", "disks", "--root", root, document)
	cmd.Args[0] = "loam" // TestMain takes that for the command.
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as}
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "read the record of the data volume: ") ||
		!strings.Contains(string(out), "run it as root") {
		t.Errorf("%v\n%s", err, out)
	}
}
