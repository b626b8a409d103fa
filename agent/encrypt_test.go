package agent

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/loam-os/loam/agent/boot"
	"github.com/loam-os/loam/agent/crypt"
	"github.com/loam-os/loam/agent/source"
	"github.com/loam-os/loam/test/files"
)

func TestDecideEncryption(t *testing.T) {
	const state = "/dev/vda8"
	for name, test := range map[string]struct {
		want   crypt.Mode
		record boot.Record
		old    bool
		do     encryption
	}{
		"not wanted":       {crypt.None, boot.Record{State: state}, false, encryptionDone},
		"a new node":       {crypt.TPM, boot.Record{State: state}, false, encryptionRequested},
		"an old node":      {crypt.TPM, boot.Record{State: state}, true, encryptionLate},
		"in memory":        {crypt.TPM, boot.Record{State: state, Memory: true}, false, encryptionDone},
		"not by our /init": {crypt.TPM, boot.Record{}, false, encryptionDone},
		"with a generation": {
			crypt.TPM, boot.Record{State: state, Generation: "g"}, false, encryptionLate,
		},
		"not open": {
			crypt.TPM,
			boot.Record{State: state, Damage: &boot.Damage{Locked: true}},
			false,
			encryptionDone,
		},
		"encrypted": {
			crypt.TPM, boot.Record{State: state, Encryption: crypt.TPM}, false, encryptionDone,
		},
		"encrypted, an old node": {
			crypt.TPM, boot.Record{State: state, Encryption: crypt.Recovery}, true, encryptionDone,
		},
		"encrypted in another way": {
			crypt.Key, boot.Record{State: state, Encryption: crypt.TPM}, false, encryptionDone,
		},
		"failed": {
			crypt.TPM, boot.Record{State: state, EncryptError: "no TPM"}, false, encryptionFailed,
		},
	} {
		if got := decideEncryption(test.want, test.record, !test.old); got != test.do {
			t.Errorf("%s: %d, want %d", name, got, test.do)
		}
	}
}

// TestANodeIsNotConfiguredWhileItsStateIsNotEncrypted as machine.yaml says:
// what is secret would get to the disk.
func TestANodeIsNotConfiguredWhileItsStateIsNotEncrypted(t *testing.T) {
	for name, test := range map[string]struct {
		record     boot.Record
		configured bool
	}{
		"failed":    {boot.Record{State: "/dev/vda8", EncryptError: "no TPM"}, false},
		"encrypted": {boot.Record{State: "/dev/dm-1", Encryption: crypt.TPM}, true},
	} {
		n := unidentified(t)
		n.record = test.record
		n.record.ESP = ""
		files.Write(t, filepath.Join(n.Root, source.RunPath), "apiVersion: loam.dev/v1alpha1\n"+
			"kind: Machine\nsource: {file: {path: /srv/config.yaml}}\nstate: {encrypt: tpm}\n")
		n.reset = n.newReset()
		n.identify(t.Context())

		_, err := n.root.Lstat(source.AcceptedName)
		accepted := err == nil
		if (n.source != nil) != test.configured || accepted != test.configured {
			t.Errorf("%s: source %v, accepted %t", name, n.source, accepted)
		}
		if e := n.status.Error; !test.configured &&
			(e == nil || !strings.Contains(e.Problem, "no TPM")) {
			t.Errorf("%s: error %+v", name, e)
		}
	}
}
