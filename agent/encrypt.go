package agent

import (
	"context"
	"errors"
	"fmt"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/boot"
	"github.com/loam-os/loam/agent/cluster/credentials"
	"github.com/loam-os/loam/agent/crypt"
	"github.com/loam-os/loam/agent/loop"
	"github.com/loam-os/loam/agent/source"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

// encryption is what the agent does about the encryption of the state.
type encryption int

const (
	// encryptionDone means that there is nothing to do.
	encryptionDone encryption = iota
	// encryptionRequested means that /init is to format the state again.
	encryptionRequested
	// encryptionLate means that the node has a state already, which stays as it
	// is.
	encryptionLate
	// encryptionFailed means that /init could not do it.
	encryptionFailed
)

// decideEncryption decides by the record of the boot, and by whether the node
// is new: nothing has configured it yet.
func decideEncryption(want crypt.Mode, record boot.Record, isNew bool) encryption {
	switch {
	case want == crypt.None, record.Encryption != crypt.None:
		return encryptionDone
	case record.Memory, record.State == "", record.Damage != nil:
		return encryptionDone
	case !isNew || record.Generation != "":
		return encryptionLate
	case record.EncryptError != "":
		return encryptionFailed
	}
	return encryptionRequested
}

// encrypt has the state of a new node encrypted as machine.yaml says, which
// takes a restart. It reports whether the node may be configured now: nothing
// that is secret may get to a state that is still to be encrypted. before is
// the record of the document that configured the node, nil for a new node.
func (n *node) encrypt(ctx context.Context, before *source.Accepted) bool {
	mode := crypt.Mode(n.machine.Encrypt())
	isNew := before == nil && !credentials.Joined(n.root, n.Now())
	switch decideEncryption(mode, n.record, isNew) {
	case encryptionLate:
		n.warn(hint.With(
			errors.New("state.encrypt is set, and the state of this node is not encrypted: only "+
				"a new node can be"),
			"flash or install the node again",
		))
	case encryptionFailed:
		n.status.Error = loop.Describe(fault.With(
			errors.New("the state is not encrypted as state.encrypt says: "+n.record.EncryptError),
			fault.StateNotEncrypted,
		))
		return false
	case encryptionRequested:
		n.Log.Info("restarting to encrypt the state", zap.String("with", string(mode)))
		if err := n.requestEncryption(ctx, mode); err != nil {
			n.status.Error = loop.Describe(fmt.Errorf("encrypt the state: %w", err))
		}
		return false
	}
	return true
}

// requestEncryption has /init format the state again, and restarts the machine.
func (n *node) requestEncryption(ctx context.Context, mode crypt.Mode) error {
	dir := n.records()
	if _, err := dir.WriteFile(boot.EncryptName, []byte(mode+"\n"), 0o600); err != nil {
		return err
	}
	return n.systemd.Reboot(ctx)
}
