package upgrade

import (
	"errors"
	"io/fs"

	"go.uber.org/zap"
)

const epochName = "upgrade-epoch.json"

// Anchor has a number beside the disk that only rises: the machine's TPM. Where there
// is none, errors are fs.ErrNotExist.
type Anchor interface {
	Read() (int, error)
	// Raise makes the number as high as that, or as it can.
	Raise(to int) error
}

// epochs are the security epochs of the systems on the disk, as far as they came by
// upgrades, and the lowest that may run here.
type epochs struct {
	Floor int            `json:"floor"`
	Of    map[string]int `json:"of"` // by root hash
}

func readEpochs(k Keeper) (epochs, error) {
	var e epochs
	err := read(k, epochName, &e)
	return e, err
}

// with is e after a system has proven itself while the other slot holds another.
// The floor rises to what both have: the way back is never refused.
func (e epochs) with(running string, epoch int, other string) epochs {
	of := map[string]int{running: epoch}
	if other != "" {
		of[other] = e.Of[other]
		epoch = min(epoch, of[other])
	}
	return epochs{Floor: max(e.Floor, epoch), Of: of}
}

// floor has the lowest epoch that may run: as the state partition says, or the anchor,
// if somebody has set that back.
func (u *Upgrader) floor() (e epochs, err error) {
	if e, err = readEpochs(u.Keep); err != nil || u.Anchor == nil {
		return e, err
	}
	anchored, err := u.Anchor.Read()
	u.unanchored(err)
	e.Floor = max(e.Floor, anchored)
	return e, nil
}

// raise notes the epoch of the target, which has proven itself: in the anchor last, as
// that cannot be taken back. A power cut in between has it done again, as the journal
// goes last of all.
func (u *Upgrader) raise(v View) error {
	e, err := u.floor()
	if err != nil {
		return err
	}
	e = e.with(v.Running.RootHash, v.Journal.Epoch, v.Holds)
	if err := write(u.Keep, epochName, e); err != nil || u.Anchor == nil {
		return err
	}
	u.unanchored(u.Anchor.Raise(e.Floor))
	return nil
}

// unanchored says, once, that the anchor cannot be had. Nothing waits for it: a node
// that takes no updates for want of it is worse off.
func (u *Upgrader) unanchored(err error) {
	if err == nil || errors.Is(err, fs.ErrNotExist) || u.said {
		return
	}
	u.said = true
	u.Log.Warn("the security epoch is kept on the state partition only", zap.Error(err))
}
