package boot

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/agent/crypt"
	"github.com/loam-os/loam/agent/dm"
	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/tpm"
	"github.com/loam-os/loam/firmware/efivar"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/partitions/luks"
)

const (
	// stateMapping is the name of the device that has the decrypted state.
	stateMapping = "state"

	// recoveryDelay is how long the recovery key stays on the console.
	recoveryDelay = 15 * time.Second

	// keyTimeout is how long to wait for a disk with the key, and to ask a TPM
	// that does not answer as it should.
	keyTimeout = 30 * time.Second

	// keyPause is how long to wait until it is asked again.
	keyPause = 3 * time.Second
)

// EncryptName is the request to encrypt the state partition, relative to the
// root directory. It has a crypt.Mode. /init then formats the state partition
// again, and everything on it is lost: the agent writes it on a node that has
// had no document yet.
const EncryptName = "var/lib/loam/encrypt"

// ResetName is the record of a reset (agent/reset), relative to the root
// directory.
const ResetName = "var/lib/loam/reset.json"

// opener opens a state partition that is encrypted, and makes one so.
type opener struct{ init *Init }

// machine returns what opens the state partition on this machine.
func (o opener) machine(d *Decision) crypt.Machine {
	sealer := tpm.SealerOfMachine()
	signed, key, err := readSigned("/")
	if err == nil {
		sealer.Signed = signed
		err = sealer.Check(key)
	}
	if err != nil {
		key = nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		o.init.Log("signed policy of PCR 11: %v", err)
	}

	on, err := efivar.Read(os.DirFS("/sys"), "SecureBoot", efivar.Global)
	return crypt.Machine{
		TPM:        sealer,
		Key:        key,
		Everywhere: func() bool { return signedEverywhere(d.ESP, key, o.init.console) },
		SecureBoot: err == nil && len(on) == 1 && on[0] == 1,
		Given:      func() []crypt.Given { return crypt.FindGiven(d.Disk) },
		Random:     rand.Reader,
	}
}

// open makes the state partition encrypted if that is requested, and maps it if
// it is. From then on, d.State is the decrypted device.
func (o opener) open(d *Decision) error {
	s := &d.State
	if s.Mark.Encrypt != crypt.None {
		err := o.encrypt(d)
		if err != nil {
			// A boot that fails would fail again and again: the agent shows the
			// error, and leaves the node without a configuration.
			d.EncryptError = hint.Text(err)
			return nil
		}
		s.Locked = true
		s.Format = false
	}
	if !s.Locked {
		return nil
	}

	if err := o.loadCrypt(); err != nil {
		return err
	}
	f, err := os.OpenFile(s.Device, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()

	opened, err := o.unlock(f, d)
	if err != nil {
		return err
	}
	if err := d.mapState(opened); err != nil {
		return err
	}
	return s.observeOpened()
}

// loadCrypt loads what dm-crypt needs: nothing answers the kernel's requests
// for modules yet.
func (o opener) loadCrypt() error {
	// Processor extensions make it several times faster. A processor without
	// them refuses the module.
	for _, name := range []string{"aesni_intel", "aes_ce_blk"} {
		if err := o.init.modules.load(name); err != nil {
			o.init.Log("%v", err)
		}
	}
	return o.init.modules.loadAll([]string{"dm_crypt", "xts"})
}

// encrypt makes the container, and shows the recovery key.
func (o opener) encrypt(d *Decision) error {
	f, err := os.OpenFile(d.State.Device, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()

	if err := d.State.Mark.Write(f); err != nil {
		return err
	}

	// Best effort: what the partition had is not readable any more.
	err = discardPieces(d.State.Size, o.init.Alive, func(start, length int64) error {
		return discard(f, start, length)
	})
	if err != nil {
		o.init.Log("discard %s: %v", d.State.Device, err)
	}

	var recovery string
	err = retry(o.init.Await, func(first bool) error {
		var err error
		recovery, err = o.machine(d).Format(f, d.State.Mark)
		if err != nil && first {
			o.init.Say("encrypt state partition %s: %s\ntrying again for %s", d.State.Device,
				hint.Text(err), keyTimeout)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("encrypt: %w", err)
	}
	slot, err := luks.Prepare([]byte(recovery), luks.ForKeys(), rand.Reader)
	if err != nil {
		return fmt.Errorf("encrypt: %w", err)
	}
	d.recovery = &slot
	o.init.Log("state partition %s encrypted", d.State.Device)
	o.init.console.Show(fmt.Sprintf("the recovery key of this node's state is %s\n"+
		"Write it down within %s. It is not stored, and not shown again.", recovery,
		recoveryDelay))
	time.Sleep(recoveryDelay)
	return nil
}

// unlock finds the key, which may be on a disk that has yet to appear.
func (o opener) unlock(f *os.File, d *Decision) (opened crypt.Opened, err error) {
	m := o.machine(d)
	err = retry(o.init.Await, func(first bool) error {
		opened, err = m.Open(f)
		if err != nil && first {
			o.init.Say("state partition %s: %s\nwaiting %s for a disk with the key",
				d.State.Device, hint.Text(err), keyTimeout)
		}
		return err
	})
	if err != nil {
		return crypt.Opened{}, err
	}

	o.reseal(m, f, opened, d)
	d.Encryption = opened.By
	d.PCRKey = opened.SealedFor()
	return opened, nil
}

// retry calls do until it succeeds, at most for keyTimeout: a TPM may be busy, or
// too slow for its driver, and a disk with the key may have yet to appear. await
// waits for a device, at most until a time.
func retry(await func(time.Time) bool, do func(first bool) error) error {
	deadline := time.Now().Add(keyTimeout)
	for first := true; ; first = false {
		err := do(first)
		if err == nil || time.Now().After(deadline) {
			return err
		}
		await(time.Now().Add(keyPause))
	}
}

// reseal has the TPM open the state from now on, after an operator has opened
// it with the recovery key, or as the first system with a signed policy wants it.
// Best effort: the next start tries again, or the operator.
func (o opener) reseal(m crypt.Machine, f *os.File, opened crypt.Opened, d *Decision) {
	var done bool
	var missing error // The operator may go on without a TPM.
	err := retry(o.init.Await, func(bool) (err error) {
		done, err = m.Reseal(f, opened)
		if errors.Is(err, fs.ErrNotExist) {
			missing = err
			return nil
		}
		return err
	})
	err = errors.Join(err, missing)
	switch {
	case opened.By == crypt.TPM:
		if err != nil {
			o.init.Log("seal the key of the state for signed systems: %v", err)
		}
	case err != nil:
		d.Warnings = append(d.Warnings, hint.Sprintf(
			"the recovery key opened the state, and the TPM cannot do it from now on: %v", err))
	case done:
		d.Warnings = append(d.Warnings, fmt.Sprintf("the recovery key (%s) opened the state; "+
			"from now on the TPM does it with the present state of the firmware", opened.Place))
	}
}

// mapState maps the decrypted state.
func (d *Decision) mapState(o crypt.Opened) error {
	control, err := dm.Open()
	if err != nil {
		return err
	}
	defer control.Close()

	s := &d.State
	size := o.Header.DataSize(s.Size)
	if size <= 0 {
		return fmt.Errorf("%d bytes are too few", s.Size)
	}

	dev, err := control.Map(dm.Crypt(stateMapping, o.Header.UUID,
		o.Header.Table(s.Device, o.VolumeKey), size))
	if err != nil {
		return err
	}

	d.Container = s.Device
	s.Device = fmt.Sprintf("/dev/dm-%d", unix.Minor(dev))
	s.Size = size
	s.Locked = false
	return nil
}

// observeOpened decides what to do with the decrypted state.
func (s *State) observeOpened() error {
	f, err := os.Open(s.Device)
	if err != nil {
		return err
	}
	defer f.Close()

	s.plan(ObserveState(f))
	if s.Damage != nil {
		return errors.New(s.Damage.Reason)
	}
	return nil
}

// requested returns the request to encrypt the state that is mounted beneath
// sysroot, None without one.
func requested(sysroot string) crypt.Mode {
	text, err := os.ReadFile(filepath.Join(sysroot, EncryptName))
	if err != nil {
		return crypt.None
	}
	mode := crypt.Mode(strings.TrimSpace(string(text)))
	if !mode.Valid() {
		return crypt.None
	}
	return mode
}

// mark makes a partition ask to be formatted.
func mark(device string, m crypt.Mark) error {
	f, err := os.OpenFile(device, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(m.Write(f), f.Close())
}

// recordReset writes the record of a reset to a new state that is mounted beneath
// sysroot. Without it, the node would follow machine.yaml again. A power cut
// between the format and this leaves such a node, and its old state is lost.
func recordReset(sysroot, record string) error {
	if record == "" {
		return nil
	}

	root, err := os.OpenRoot(sysroot)
	if err != nil {
		return fmt.Errorf("record the reset: %w", err)
	}
	defer root.Close()

	_, err = durable.New(root, nil).WriteFile(ResetName, []byte(record), 0o600)
	if err != nil {
		return fmt.Errorf("record the reset: %w", err)
	}
	return nil
}

// recordRecovery writes the key slot of the recovery key to a new state that is
// mounted beneath sysroot, for the containers that the node makes later. Without
// it, these have no recovery key.
func recordRecovery(sysroot string, slot *luks.Prepared) error {
	if slot == nil {
		return nil
	}

	root, err := os.OpenRoot(sysroot)
	if err != nil {
		return fmt.Errorf("record the recovery key: %w", err)
	}
	defer root.Close()
	return durable.New(root, nil).WriteJSON(crypt.RecoveryName, slot, 0o600)
}

const (
	// discardStart is where a partition begins that is discarded, in bytes. What is
	// before it stays: the mark has the request to encrypt, and may have the only
	// record of a reset. Format overwrites the rest of it.
	discardStart = 1 << 20

	// discardPiece is how much is discarded at a time: a slow disk may take longer
	// for all of it than /init may take.
	discardPiece = 1 << 30
)

// discardPieces calls discard for one piece of a partition of size bytes after the
// other, and alive before each.
func discardPieces(size int64, alive func(), discard func(start, length int64) error) error {
	for at := int64(discardStart); at < size; at += discardPiece {
		alive()
		if err := discard(at, min(discardPiece, size-at)); err != nil {
			return err
		}
	}
	return nil
}

// discard tells the disk that nothing in a part of a partition is needed
// (BLKDISCARD, linux/fs.h).
func discard(f *os.File, start, length int64) error {
	span := [2]uint64{uint64(start), uint64(length)}
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), unix.BLKDISCARD,
		uintptr(unsafe.Pointer(&span)))
	if errno != 0 {
		return errno
	}
	return nil
}

// lock has the TPM give nothing back to the running system. Best effort: a
// machine whose TPM does not work has sealed nothing.
func (o opener) lock() {
	err := retry(o.init.Await, func(bool) error {
		err := tpm.SealerOfMachine().Lock()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	if err != nil {
		o.init.Log("%v", err)
	}
}
