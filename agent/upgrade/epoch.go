package upgrade

import (
	"errors"
	"io/fs"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/upgrade/records"
)

const epochName = "upgrade-epoch.json"

// Anchor keeps a number that only rises outside of the disk: in the machine's
// TPM. /init raises it at the next boot, to what the record says and not above
// the epoch in its own UKI (agent/boot). Without a TPM, the error is
// fs.ErrNotExist.
type Anchor interface {
	Read() (int, error)
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
// slot holds another.
func (k floorKeeper) raise(running string, epoch int, other string) error {
	e, err := k.read()
	if err != nil {
		return err
	}

	return records.Save(k.records, epochName, e.with(running, epoch, other))
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
