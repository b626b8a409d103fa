package upgrade

import (
	"errors"
	"io/fs"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/upgrade/records"
)

const epochName = "upgrade-epoch.json"

// Anchor keeps a number that only rises outside of the disk: in the machine's
// TPM. Without a TPM, the errors are fs.ErrNotExist.
type Anchor interface {
	Read() (int, error)
	// Raise raises the number to that value, or as high as it can.
	Raise(to int) error
}

// epochs are the security epochs of the systems on the disk that came by
// upgrades, and the lowest epoch that may run here.
type epochs struct {
	Floor int            `json:"floor"`
	Of    map[string]int `json:"of"` // by root hash
}

func readEpochs(s records.Store) (epochs, error) {
	var e epochs
	err := records.Load(s, epochName, &e)
	return e, err
}

// with returns e after a system has proved itself while the other slot holds
// another system. The floor rises to the lower of the two epochs: a rollback is
// never refused.
func (e epochs) with(running string, epoch int, other string) epochs {
	of := map[string]int{running: epoch}
	if other != "" {
		of[other] = e.Of[other]
		epoch = min(epoch, of[other])
	}
	return epochs{Floor: max(e.Floor, epoch), Of: of}
}

// floorKeeper keeps the lowest epoch that may run.
type floorKeeper struct {
	records records.Store
	anchor  Anchor
	log     *zap.Logger
	// warned says that the anchor's failure is in the log.
	warned *bool
}

// read returns the epochs, with the floor of the state partition or of the
// anchor, whichever is higher: an old state partition does not lower it.
func (k floorKeeper) read() (epochs, error) {
	e, err := readEpochs(k.records)
	if err != nil || k.anchor == nil {
		return e, err
	}

	anchored, err := k.anchor.Read()
	k.warn(err)
	e.Floor = max(e.Floor, anchored)

	return e, nil
}

// raise records the epoch of a system that has proved itself while the other
// slot holds another. The anchor comes last, because it cannot be taken back.
// After a power cut in between this is done again, as the journal is removed
// last of all.
func (k floorKeeper) raise(running string, epoch int, other string) error {
	e, err := k.read()
	if err != nil {
		return err
	}

	e = e.with(running, epoch, other)
	if err := records.Save(k.records, epochName, e); err != nil || k.anchor == nil {
		return err
	}

	k.warn(k.anchor.Raise(e.Floor))
	return nil
}

// warn logs, once, that the anchor cannot be used. Upgrades go on: a node that
// took none would be worse off.
func (k floorKeeper) warn(err error) {
	if err == nil || errors.Is(err, fs.ErrNotExist) || *k.warned {
		return
	}
	*k.warned = true
	k.log.Warn("the security epoch is kept on the state partition only", zap.Error(err))
}
