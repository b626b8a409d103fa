package boot

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/generation"
)

// etcDir is beneath /run: what is written to /etc lives as long as the boot.
const etcDir = "/run/loam/etc"

// buildEtc puts the current generation over the image's /etc, and returns the
// generation's name, "" where there is none. A generation that cannot be read
// is returned as an error after /etc is usable: the agent reports and mends it.
func buildEtc(sysroot, osVersion string) (string, error) {
	if err := mountEtc(sysroot); err != nil {
		return "", err
	}

	root, err := os.OpenRoot(sysroot)
	if err != nil {
		return "", fmt.Errorf("open the new root: %w", err)
	}
	defer root.Close()

	if err := setMachineID(root); err != nil {
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

	// A disk that is full is no reason to leave out what is there.
	backErr := goBack(store, osVersion)
	gen, err := fillEtc(root, store.Reader, osVersion)
	if err := errors.Join(backErr, err); err != nil {
		return gen, fmt.Errorf("%w: %w", errGeneration, err)
	}

	return gen, nil
}

// mountView mounts the state of the node once more, read-only, where managed
// links lead through: nothing that follows them can write into the store.
func mountView(sysroot string) error {
	source := sysroot + generation.Dir
	if err := os.MkdirAll(source, 0o755); err != nil {
		return fmt.Errorf("state of the node: %w", err)
	}
	if err := (mount{source, generation.View, "", unix.MS_BIND, ""}).apply(); err != nil {
		return err
	}
	return mount{
		source,
		generation.View,
		"",
		unix.MS_BIND | unix.MS_REMOUNT | unix.MS_RDONLY | unix.MS_NODEV,
		"",
	}.apply()
}

// goBack leaves a configuration under which the node did not stay up, or that
// nobody confirmed before it restarted: generation.Journal.AtBoot.
func goBack(store *generation.Store, osVersion string) error {
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
	return mount{"etc", etc, "overlay", unix.MS_NOSUID | unix.MS_NODEV, data}.apply()
}

// errGeneration marks trouble with the generation only: the machine boots with
// what of it can be had.
var errGeneration = errors.New("configuration left out")

// fillEtc places what the current generation has in /etc, as far as it can.
// What it has elsewhere is on the state partition already.
func fillEtc(root *os.Root, store generation.Reader, osVersion string) (string, error) {
	m, ok, err := store.Current(osVersion)
	if err != nil {
		return "", err
	}
	if !ok {
		return "", nil
	}

	dir := durable.New(root, nil)
	var bad []error
	for _, p := range generation.Place(m) {
		if strings.HasPrefix(p.Path, "/etc/") {
			_, err := generation.Put(dir, p, store)
			bad = append(bad, err)
		}
	}

	return m.Name(), errors.Join(bad...)
}

// machineIDFile keeps the node's identity across boots (machine-id(5)).
const machineIDFile = "var/lib/loam/machine-id"

func setMachineID(root *os.Root) error {
	text, err := root.ReadFile(machineIDFile)
	if id := strings.TrimSpace(string(text)); err != nil || !validMachineID(id) {
		text = []byte(strings.ReplaceAll(uuid.NewString(), "-", "") + "\n")
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

// HostnameFile keeps the host name that machine.yaml gave last, relative to
// the root directory: a node stays who it is when the document is gone.
const HostnameFile = "var/lib/loam/hostname"

func setHostname(root *os.Root) error {
	text, err := root.ReadFile(HostnameFile)
	if err != nil || strings.TrimSpace(string(text)) == "" {
		return nil // the image's
	}
	if err := root.WriteFile("etc/hostname", text, 0o644); err != nil {
		return fmt.Errorf("host name: %w", err)
	}
	return nil
}

// validMachineID reports whether id is 32 lower-case hex digits, not all zero.
func validMachineID(id string) bool {
	return len(id) == 32 && strings.Trim(id, "0123456789abcdef") == "" &&
		strings.Trim(id, "0") != ""
}
