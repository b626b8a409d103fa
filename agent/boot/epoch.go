package boot

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/loam-os/loam/agent/cmdline"
	"github.com/loam-os/loam/agent/tpm"
	"github.com/loam-os/loam/firmware/bootdir"
	"github.com/loam-os/loam/firmware/bootentry"
	"github.com/loam-os/loam/firmware/uki"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/partitions/fat"
)

// epochParameter is the kernel parameter with the security epoch of the system.
// The firmware has verified it with the UKI, if Secure Boot is on.
const epochParameter = "loam.epoch"

// EpochName is where agent/upgrade records the security epochs of both slots,
// relative to the root directory.
const EpochName = "var/lib/loam/upgrade-epoch.json"

// epochOf returns the security epoch of a command line, 0 without one.
func epochOf(text string) int {
	value, _ := cmdline.Parse(text).Get(epochParameter)
	epoch, err := strconv.Atoi(value)
	if err != nil {
		return 0
	}
	return max(epoch, 0)
}

// epochs are the security epochs of the machine, which its TPM and the boot entries on
// the ESP keep.
type epochs struct{ init *Init }

// check refuses a system of an older security epoch than the machine's TPM
// allows. Its boot entry goes last, so the loader starts the other slot next. A
// TPM that is absent or broken, or has another owner, refuses nothing: the state
// partition still has its record, and the agent asks that.
func (e epochs) check(d Decision) error {
	signed, err := signedNumber()
	if err != nil {
		e.init.Log("security epoch: %v", err)
	}
	floor, err := floorOf(tpm.OfMachine(), signed)
	if err != nil {
		e.log(err)
		return nil
	}
	if d.Epoch >= floor {
		return nil
	}

	old := hint.With(
		fmt.Errorf("this system has security epoch %d, and the TPM of the machine allows none "+
			"below %d", d.Epoch, floor),
		"install a newer release, or clear the TPM in the firmware's setup, which also takes the "+
			"key of an encrypted state",
	)
	return hint.InText(errors.Join(old, parkEntries(d.ESP, d.RootHash)))
}

// number is a number in a TPM that only rises.
type number interface {
	Read() (int, error)
	Raise(to int) error
}

// signedNumber returns the number that only the key of the running system raises,
// nil if the system is not signed by one (firmware/pcrsig).
func signedNumber() (number, error) {
	signed, key, err := readSigned("/")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return tpm.SignedOfMachine(key, signed), nil
}

// floorOf returns the lowest epoch that may start. What a key has signed counts
// more than the number that every system could raise. A machine that has not run a
// signed system of an epoch yet, or one of another key, has only the latter.
func floorOf(plain, signed number) (int, error) {
	if signed == nil {
		return plain.Read()
	}
	floor, err := signed.Read()
	if errors.Is(err, tpm.ErrTaken) || (err == nil && floor == 0) {
		return plain.Read()
	}
	return floor, err
}

// raise raises the numbers in the TPM to the epoch that both slots have, as
// the state beneath sysroot says, but never above the epoch of this system:
// whoever writes to the state cannot make the TPM refuse it. It returns the number
// that a key has signed.
func (e epochs) raise(sysroot string, d Decision) int {
	signed, _ := signedNumber() // check has logged the error.
	floor, err := raise(tpm.OfMachine(), signed, recordedEpoch(sysroot), d.Epoch)
	if err != nil {
		e.log(err)
	}
	return floor
}

// raise raises both numbers. The plain one is for systems that are not signed. It
// may be higher, if the state is new: then the signed one follows as far as the
// epoch of this system.
func raise(plain, signed number, recorded, own int) (floor int, err error) {
	to := min(recorded, own)
	var errs []error
	if to > 0 {
		errs = append(errs, plain.Raise(to))
	}
	if signed == nil {
		return 0, errors.Join(errs...)
	}

	before, err := plain.Read()
	errs = append(errs, err)
	if to = max(to, min(before, own)); to > 0 {
		errs = append(errs, signed.Raise(to))
	}
	floor, err = signed.Read()
	return floor, errors.Join(append(errs, err)...)
}

// log logs an error of the TPM. That there is no TPM is no error.
func (e epochs) log(err error) {
	if !errors.Is(err, fs.ErrNotExist) {
		e.init.Log("%v", err)
	}
}

// recordedEpoch returns the lowest epoch that may run by the record of the
// state, 0 without one.
func recordedEpoch(sysroot string) int {
	text, err := os.ReadFile(filepath.Join(sysroot, EpochName))
	if err != nil {
		return 0
	}
	var record struct{ Floor int }
	if err := json.Unmarshal(text, &record); err != nil {
		return 0
	}
	return record.Floor
}

// parkEntries makes the loader start the boot entries of a system last.
func parkEntries(device, rootHash string) error {
	f, err := os.OpenFile(device, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("ESP: %w", err)
	}
	defer f.Close()

	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return fmt.Errorf("ESP: %w", err)
	}
	const sectorSize = 512 // Every disk supports it.
	esp, err := bootdir.Open(f, size, sectorSize)
	if err != nil {
		return fmt.Errorf("ESP %s: %w", device, err)
	}

	files, err := esp.ReadDir(bootentry.Dir)
	if err != nil {
		return fmt.Errorf("ESP %s: %w", device, err)
	}
	for _, file := range files {
		name, err := bootentry.Parse(file.Name)
		if err != nil || file.Orphan || name.Bad() || bootedBy(esp, file.Name) != rootHash {
			continue
		}

		name.Counted = true
		name.TriesLeft = 0
		name.TriesDone = 0
		parked, err := bootentry.Format(name)
		if err != nil {
			return err
		}
		if err := esp.Rename(bootentry.Dir, file.Name, parked, true); err != nil {
			return fmt.Errorf("ESP %s: %w", device, err)
		}
	}
	return nil
}

// bootedBy returns the root hash that a boot entry starts, "" if it has none.
func bootedBy(esp *fat.FS, file string) string {
	r, err := esp.Open(bootentry.Dir + "/" + file)
	if err != nil {
		return ""
	}
	text, err := uki.ReadSection(r, ".cmdline")
	if err != nil {
		return ""
	}
	hash, _ := cmdline.Parse(string(text)).Get("roothash")
	return hash
}
