package upgrade

const epochName = "upgrade-epoch.json"

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

// raise notes the epoch of the target, which has proven itself.
func raise(k Keeper, v View) error {
	e, err := readEpochs(k)
	if err != nil {
		return err
	}
	return write(k, epochName, e.with(v.Running.RootHash, v.Journal.Epoch, v.Holds))
}
