package boot

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"strings"
	"time"

	uroot "github.com/u-root/u-root/pkg/mount"
	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/agent/dm"
	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/uevent"
	"github.com/loam-os/loam/firmware/osrelease"
	"github.com/loam-os/loam/hint"
)

const (
	sysroot = "/sysroot"
	systemd = "/usr/lib/systemd/systemd"
	// diskTimeout is how long disks may take to appear: slow USB bridges need
	// most of it.
	diskTimeout = 60 * time.Second
	// unsureDelay is how long to wait for another disk if nothing proves that
	// the machine was started from the disk with the system.
	unsureDelay = 5 * time.Second
	// mapping is the name of the verity device.
	mapping = "root"
)

// Main is /init on a disk. It returns only if the process must not or could not
// boot the machine; the caller then shows the error and restarts (Init.Fail).
func (i *Init) Main() error {
	if err := i.Start(); err != nil {
		return err
	}
	d, err := i.find()
	if err != nil {
		return err
	}
	i.Done("find root by hash")
	if err := (epochs{i}).check(d); err != nil {
		return err
	}
	return i.Run(d)
}

// Start mounts the basic file systems and begins to load the drivers of the
// hardware.
func (i *Init) Start() error {
	i.kernel = sinceKernelStart()
	i.Limit()

	if err := i.setClock(); err != nil {
		i.console.Log("%v", err)
	}

	if err := i.MountBasic(); err != nil {
		return err
	}

	i.Done("mount basic file systems")
	events, err := uevent.Open(uevent.Kernel, "")
	if err != nil {
		return err
	}

	i.events = events
	modules, err := newModuleLoader(i.console.Log)
	if err != nil {
		return err
	}

	i.modules = modules
	modules.coldplug()
	i.armWatchdog()

	if err := modules.loadAll(needed[:]); err != nil {
		return err
	}

	i.mountEFIVariables(modules)
	return nil
}

// Await waits for a device to appear or change, and begins to load its driver.
// It returns false at the deadline.
func (i *Init) Await(deadline time.Time) bool {
	happened := i.events.Wait(deadline)
	i.modules.coldplug()
	return happened
}

// Run makes the chosen system the root file system and becomes its systemd. It
// returns only on error.
func (i *Init) Run(d Decision) error {
	if err := i.mountRoot(d); err != nil {
		return err
	}

	i.Done("map and mount root")
	if err := (stateMount{opener{i}}).mount(&d); err != nil {
		return err
	}

	d.signedEpoch = epochs{i}.raise(sysroot, d)
	opener{i}.lock()
	i.Done("mount state")
	if onTrial(os.DirFS(sysroot+generation.Dir), d.RootHash) {
		d.Trial = true
		if err := superviseTrial("/run"); err != nil {
			return err
		}
	}

	name, version, err := release(sysroot + "/usr/lib/os-release")
	if err != nil {
		return err
	}

	newID := randomID
	if d.Memory {
		newID = func() string { return hardwareID(os.DirFS("/")) }
	}

	gen, err := buildEtc(sysroot, version, newID)
	if errors.Is(err, errGeneration) {
		d.Warnings = append(d.Warnings, hint.Text(err))
	} else if err != nil {
		return err
	}

	if err := putNetwork(sysroot, "/"); err != nil {
		d.Warnings = append(d.Warnings, hint.Text(err))
	}

	i.Done("build /etc")
	announce(i.console, name, version, gen, d)

	if err := writeRecord(recordOf(d, gen, i.steps.steps, i.kernel)); err != nil {
		return err
	}

	i.modules.close()
	i.events.Close()
	return switchRoot()
}

// find observes the disks until Decide has what it needs.
func (i *Init) find() (Decision, error) {
	started := time.Now()
	deadline := started.Add(diskTimeout)
	for {
		facts, err := Observe()
		if err != nil {
			return Decision{}, err
		}
		if err := storeFacts(facts); err != nil {
			return Decision{}, err
		}

		d, err := Decide(facts)
		if err == nil && d.Unsure && i.Await(started.Add(unsureDelay)) {
			continue
		}

		if !errors.Is(err, ErrNotThere) && !errors.Is(err, ErrOtherDisk) {
			return d, err
		}

		if !i.Await(deadline) {
			return Decision{}, hint.With(err,
				"waited %s for it; is the disk plugged in, "+
					"and is it the disk that was flashed?", diskTimeout)
		}
	}
}

func (i *Init) mountRoot(d Decision) error {
	dev, err := mapVerity(d)
	if err != nil {
		return err
	}

	root := mount{
		source: dev,
		target: sysroot,
		fstype: "erofs",
		flags:  unix.MS_RDONLY,
	}
	if err := root.apply(); err != nil {
		return hint.With(err, "the first block of the root file system may be damaged")
	}
	return nil
}

// mapVerity makes the verified device and returns its node.
func mapVerity(d Decision) (string, error) {
	control, err := dm.Open()
	if err != nil {
		return "", err
	}
	defer control.Close()

	// The UUID has the form that veritysetup gives, so that veritysetup can
	// show the mapping.
	id := fmt.Sprintf("CRYPT-VERITY-%s-%s",
		strings.ReplaceAll(d.VerityUUID.String(), "-", ""), mapping)
	dev, err := control.Map(dm.Mapping{
		Name:    mapping,
		UUID:    id,
		Targets: []dm.Target{{Length: d.TargetLength, Type: "verity", Params: d.Target}},
	})
	if err != nil {
		return "", fmt.Errorf("verity of %s with %s: %w", d.Root, d.Verity, err)
	}

	return fmt.Sprintf("/dev/dm-%d", unix.Minor(dev)), nil
}

// release reads IMAGE_ID and IMAGE_VERSION of an os-release(5) file.
func release(file string) (id, version string, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", "", fmt.Errorf("version of the root file system: %w", err)
	}

	values := osrelease.Parse(text)
	id = values[osrelease.ImageID]
	version = values[osrelease.ImageVersion]
	if id == "" || version == "" || strings.ContainsAny(version, "/ ") {
		return "", "", fmt.Errorf("%s: no usable IMAGE_ID and IMAGE_VERSION", file)
	}

	return id, version, nil
}

func announce(console *Console, name, version, gen string, d Decision) {
	if gen == "" {
		gen = "none"
	}

	trial := ""
	if d.Trial {
		trial = ", on trial"
	}

	console.Say("%s %s, slot %s, root %.12s verified, generation %s%s", name, version, d.Slot,
		d.RootHash, gen, trial)
	for _, w := range d.Warnings {
		console.Say("warning: %s", w)
	}
}

// recordOf returns the Record of a boot that took those steps. start is when /init
// started, since kernel start.
func recordOf(d Decision, gen string, steps []Step, start time.Duration) Record {
	return Record{
		Slot:        d.Slot,
		RootHash:    d.RootHash,
		Root:        d.Root,
		Verity:      d.Verity,
		ESP:         d.ESP,
		State:       d.State.Device,
		Generation:  gen,
		Memory:      d.Memory,
		Trial:       d.Trial,
		OtherLoader: d.OtherLoader,
		Steps:       steps,
		KernelStart: start,
		Warnings:    d.Warnings,
		Damage:      d.State.Damage,

		Container:    d.Container,
		Encryption:   d.Encryption,
		PCRKey:       d.PCRKey,
		SignedEpoch:  d.signedEpoch,
		EncryptError: d.EncryptError,
	}
}

// writeRecord writes the Record for the agent.
func writeRecord(r Record) error {
	text, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("record the boot: %w", err)
	}
	if err := os.WriteFile(RecordPath, text, 0o644); err != nil {
		return fmt.Errorf("record the boot: %w", err)
	}

	return nil
}

// FactsPath is where /init stores the facts of its decision: `loam boot
// --facts` replays them.
const FactsPath = "/run/loam/facts.json"

func storeFacts(f Facts) error {
	text, err := json.Marshal(f)
	if err != nil {
		return fmt.Errorf("store the facts: %w", err)
	}

	if err := os.MkdirAll(filepath.Dir(FactsPath), 0o755); err != nil {
		return fmt.Errorf("store the facts: %w", err)
	}
	if err := os.WriteFile(FactsPath, text, 0o644); err != nil {
		return fmt.Errorf("store the facts: %w", err)
	}

	return nil
}

// sinceKernelStart returns CLOCK_MONOTONIC, the clock of the agent's uptime and
// of systemd's timestamps.
func sinceKernelStart() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}

// switchRoot frees the initramfs and becomes systemd. It returns only on error.
func switchRoot() error {
	log.SetOutput(io.Discard) // u-root logs each step
	if err := uroot.SwitchRoot(sysroot, systemd); err != nil {
		return fmt.Errorf("switch to the new root: %w", err)
	}
	return nil
}

// Fail shows why the machine cannot boot, waits until the operator can have
// read it, and restarts.
func (i *Init) Fail(err error) {
	const wait = 10 * time.Second
	i.console.Say("cannot boot: %v", err)
	i.Restart(wait)
}

// Restart waits until the operator can have read the console, and restarts.
func (i *Init) Restart(wait time.Duration) {
	i.console.Say("restarting in %s", wait)
	time.Sleep(wait)
	unix.Sync()
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART)
	// Not reached; PID 1 must not end.
	select {}
}
