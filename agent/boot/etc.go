package boot

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/hostname"
	"github.com/loam-os/loam/firmware/identity"
)

// etcDir is beneath /run: files written to /etc are gone after the next boot.
const etcDir = "/run/loam/etc"

// buildEtc mounts the current generation over the image's /etc, and returns the
// generation's name, "" if none. A node without a machine ID gets a new one. If a generation cannot be read, buildEtc
// returns an error after /etc is usable: the agent reports and repairs it.
func buildEtc(sysroot, osVersion string, newID func() string) (string, error) {
	if err := mountEtc(sysroot); err != nil {
		return "", err
	}

	root, err := os.OpenRoot(sysroot)
	if err != nil {
		return "", fmt.Errorf("open the new root: %w", err)
	}
	defer root.Close()

	if err := setMachineID(root, newID); err != nil {
		return "", err
	}
	if err := setHostname(root); err != nil {
		return "", err
	}
	if err := mountView(sysroot); err != nil {
		return "", err
	}

	// Links in /etc lead through this one, whether there is a generation or not
	// yet.
	if err := os.Symlink(generation.View+"/os/"+osVersion+"/current", generation.Link); err != nil {
		return "", fmt.Errorf("link the current generation: %w", err)
	}

	state, err := root.OpenRoot(strings.TrimPrefix(generation.Dir, "/"))
	if err != nil {
		return "", fmt.Errorf("open the state of the node: %w", err)
	}
	defer state.Close()

	store := generation.Open(durable.New(state, nil))

	// Best effort: a full disk must not keep the generation from being used.
	revertErr := revert(store, osVersion)
	gen, err := fillEtc(root, store.Reader, osVersion)
	if err := errors.Join(revertErr, err); err != nil {
		return gen, fmt.Errorf("%w: %w", errGeneration, err)
	}

	return gen, nil
}

// mountView mounts the state of the node a second time, read-only, at the path
// that managed links lead through. So a program that follows them cannot write
// into the store.
func mountView(sysroot string) error {
	source := sysroot + generation.Dir
	if err := os.MkdirAll(source, 0o755); err != nil {
		return fmt.Errorf("state of the node: %w", err)
	}
	bind := mount{source: source, target: generation.View, flags: unix.MS_BIND}
	if err := bind.apply(); err != nil {
		return err
	}
	bind.flags |= unix.MS_REMOUNT | unix.MS_RDONLY | unix.MS_NODEV
	return bind.apply()
}

// revert leaves a configuration under which the node did not stay up, or which
// was not confirmed before it restarted: see generation.Journal.AtBoot.
func revert(store *generation.Store, osVersion string) error {
	current, ok, err := store.Current(osVersion)
	if err != nil || !ok {
		return err
	}

	j, ok, err := store.Journal()
	if err != nil || !ok {
		return err
	}

	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return fmt.Errorf("read the boot ID: %w", err)
	}

	next, back := j.AtBoot(strings.TrimSpace(string(id)), current.Name())
	if next.Boots == j.Boots {
		return nil
	}
	if err := store.WriteJournal(next); err != nil || !back {
		return err
	}

	return store.Activate(osVersion, next.To)
}

func mountEtc(sysroot string) error {
	for _, dir := range []string{etcDir + "/upper", etcDir + "/work"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("layer of /etc: %w", err)
		}
	}
	etc := sysroot + "/etc"
	data := fmt.Sprintf("lowerdir=%s,upperdir=%s/upper,workdir=%s/work", etc, etcDir, etcDir)
	return mount{
		source: "etc",
		target: etc,
		fstype: "overlay",
		flags:  unix.MS_NOSUID | unix.MS_NODEV,
		data:   data,
	}.apply()
}

// errGeneration marks an error of the generation only: the machine boots with
// the parts that can be read.
var errGeneration = errors.New("configuration left out")

// fillEtc places the files of the current generation in /etc, as far as it can.
// Its files elsewhere are on the state partition already.
func fillEtc(root *os.Root, store generation.Reader, osVersion string) (string, error) {
	m, ok, err := store.Current(osVersion)
	if err != nil {
		return "", err
	}
	if !ok {
		return "", nil
	}

	// No pod has run yet: every link is the image's.
	dir := durable.New(root, nil).WithImage(root.FS())
	var bad []error
	for _, p := range generation.Place(m) {
		if strings.HasPrefix(p.Path, "/etc/") {
			_, err := generation.Put(dir, p, store)
			bad = append(bad, err)
		}
	}

	return m.Name(), errors.Join(bad...)
}

// machineIDFile stores the node's identity across boots (machine-id(5)).
const machineIDFile = "var/lib/loam/machine-id"

func setMachineID(root *os.Root, newID func() string) error {
	text, err := root.ReadFile(machineIDFile)
	if id := strings.TrimSpace(string(text)); err != nil || !validMachineID(id) {
		text = []byte(newID() + "\n")
		dir := durable.New(root, nil)
		if err := dir.MkdirAll("var/lib/loam"); err != nil {
			return fmt.Errorf("machine ID: %w", err)
		}
		if _, err := dir.WriteFile(machineIDFile, text, 0o444); err != nil {
			return fmt.Errorf("machine ID: %w", err)
		}
	}

	if err := root.WriteFile("etc/machine-id", text, 0o444); err != nil {
		return fmt.Errorf("machine ID: %w", err)
	}

	return nil
}

// randomID is for a machine with a disk: disks are copied, and hardware is reused.
func randomID() string { return strings.ReplaceAll(uuid.NewString(), "-", "") }

// hardwareID is for a system in memory, which has nothing from its last start: it is
// the same at each one, as DHCP servers tell clients by it (RFC 4361). Without a UUID
// of the firmware's it is random. hardware is the root directory.
func hardwareID(hardware fs.FS) string {
	id, err := uuid.Parse(identity.UUID(hardware))
	if err != nil || id == uuid.Nil || id == uuid.Max || id == unset {
		return randomID()
	}
	named := uuid.NewSHA1(id, []byte("loam machine ID "+identity.Serial(hardware)))
	return strings.ReplaceAll(named.String(), "-", "")
}

// unset is the UUID of boards whose maker gave them none.
var unset = uuid.MustParse("03000200-0400-0500-0006-000700080009")

// HostnameFile stores the host name that machine.yaml gave last, relative to
// the root directory. So a node keeps its name when the document is gone.
const HostnameFile = "var/lib/loam/hostname"

func setHostname(root *os.Root) error {
	text, err := root.ReadFile(HostnameFile)
	if err != nil {
		return nil // It has the image's.
	}
	name, err := hostname.Parse(string(text))
	if err != nil {
		return nil // The file is damaged: the agent names the node.
	}
	if err := root.WriteFile("etc/hostname", []byte(name+"\n"), 0o644); err != nil {
		return fmt.Errorf("host name: %w", err)
	}

	hosts, err := root.ReadFile(hostname.HostsFile)
	if err != nil {
		return nil // An image without it.
	}
	named := hostname.Hosts(string(hosts), name)
	if err := root.WriteFile(hostname.HostsFile, []byte(named), 0o644); err != nil {
		return fmt.Errorf("host name: %w", err)
	}
	return nil
}

// validMachineID reports whether id is 32 lower-case hex digits, not all zero.
func validMachineID(id string) bool {
	return len(id) == 32 && strings.Trim(id, "0123456789abcdef") == "" &&
		strings.Trim(id, "0") != ""
}
