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
	// Links in /etc lead through this one, whether there is a generation or not yet.
	if err := os.Symlink(generation.Dir+"/os/"+osVersion+"/current", generation.Link); err != nil {
		return "", fmt.Errorf("link the current generation: %w", err)
	}
	return fillEtc(root, osVersion)
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

// errGeneration marks trouble with the generation only: the machine boots without it.
var errGeneration = errors.New("configuration left out")

// fillEtc places what the current generation has in /etc. What it has
// elsewhere is on the state partition already.
func fillEtc(root *os.Root, osVersion string) (string, error) {
	state, err := root.OpenRoot(strings.TrimPrefix(generation.Dir, "/"))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("open the state of the node: %w", err)
	}
	defer state.Close()
	store := generation.Open(durable.New(state, nil))
	m, ok, err := store.Current(osVersion)
	if err != nil {
		return "", fmt.Errorf("%w: %w", errGeneration, err)
	}
	if !ok {
		return "", nil
	}
	content, err := store.Content(m.Name())
	if err != nil {
		return "", fmt.Errorf("%w: %w", errGeneration, err)
	}
	defer content.Close()
	var placements []generation.Placement
	for _, p := range generation.Place(m) {
		if strings.HasPrefix(p.Path, "/etc/") {
			placements = append(placements, p)
		}
	}
	if err := generation.Materialize(root, placements, content); err != nil {
		return m.Name(), fmt.Errorf("%w in part: %w", errGeneration, err)
	}
	return m.Name(), nil
}

// machineIDFile keeps the node's identity across boots (machine-id(5)).
const machineIDFile = "var/lib/loam/machine-id"

func setMachineID(root *os.Root) error {
	text, err := root.ReadFile(machineIDFile)
	if id := strings.TrimSpace(string(text)); err != nil || !validMachineID(id) {
		text = []byte(strings.ReplaceAll(uuid.NewString(), "-", "") + "\n")
		dir := durable.New(root, nil)
		if _, err := dir.MkdirAll("var/lib/loam"); err != nil {
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
	return len(id) == 32 && strings.Trim(id, "0123456789abcdef") == "" && strings.Trim(id, "0") != ""
}
