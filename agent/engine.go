package agent

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/generation"
)

func newEngine(env Env, root *os.Root, units apply.Units, osVersion string) (*apply.Executor, error) {
	node := durable.New(root, nil)
	name := strings.TrimPrefix(generation.Dir, "/")
	if _, err := node.MkdirAll(name); err != nil {
		return nil, err
	}
	state, err := root.OpenRoot(name)
	if err != nil {
		return nil, fmt.Errorf("open the state of the node: %w", err)
	}
	image, err := openImage(env.Root)
	if err != nil {
		state.Close()
		return nil, err
	}
	bootID, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		image.Close()
		state.Close()
		return nil, fmt.Errorf("read the boot ID: %w", err)
	}
	return &apply.Executor{
		State: durable.New(state, nil), Node: node, Image: image, Units: units,
		OSVersion: osVersion, BootID: strings.TrimSpace(string(bootID)), JobWait: jobWait, Now: env.Now,
	}, nil
}

// openImage opens the image's root directory without what is mounted over it,
// such as the layer of /etc: a clone of the one mount, attached nowhere
// (open_tree(2), Linux 5.2).
func openImage(root string) (*os.Root, error) {
	fd, err := unix.OpenTree(unix.AT_FDCWD, root, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("open the image beneath %s: %w", root, err)
	}
	defer unix.Close(fd)
	image, err := os.OpenRoot(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		return nil, fmt.Errorf("open the image beneath %s: %w", root, err)
	}
	return image, nil
}
