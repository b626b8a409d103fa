package agent

import (
	"errors"
	"fmt"

	"github.com/loam-os/loam/agent/boot"
	"github.com/loam-os/loam/agent/crypt"
	"github.com/loam-os/loam/agent/durable"
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

// encrypt has the state of a new node encrypted as machine.yaml says,
// which takes a restart. mayGoOn reports whether the node may be configured now:
// nothing that is secret may get to a state that is still to be encrypted. The
// warning does not keep it from that. restart has /init format the state again.
func encrypt(
	want crypt.Mode, record boot.Record, isNew bool, restart func() error,
) (mayGoOn bool, warning, err error) {
	switch decideEncryption(want, record, isNew) {
	case encryptionLate:
		return true, hint.With(
			errors.New("state.encrypt is set, and the state of this node is not encrypted: only "+
				"a new node can be"),
			"flash or install the node again",
		), nil
	case encryptionFailed:
		return false, nil, fault.With(
			errors.New("the state is not encrypted as state.encrypt says: "+record.EncryptError),
			fault.StateNotEncrypted,
		)
	case encryptionRequested:
		if err := restart(); err != nil {
			return false, nil, fmt.Errorf("encrypt the state: %w", err)
		}
		return false, nil, nil
	}
	return true, nil, nil
}

// requestEncryption has /init format the state again at the next start.
func requestEncryption(dir *durable.Dir, mode crypt.Mode) error {
	_, err := dir.WriteFile(boot.EncryptName, []byte(mode+"\n"), 0o600)
	return err
}
