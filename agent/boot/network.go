package boot

import (
	"errors"
	"fmt"
	"os"

	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/networkd"
)

// putNetwork gives networkd the network that was stored beneath sysroot, so
// that networkd has it when it starts, even if the agent does not. run is the
// root directory that has /run.
func putNetwork(sysroot, run string) error {
	state, err := os.OpenRoot(sysroot)
	if err != nil {
		return fmt.Errorf("network: %w", err)
	}
	defer state.Close()

	files, err := networkd.Kept(state)
	if err != nil || len(files) == 0 {
		return err
	}

	root, err := os.OpenRoot(run)
	if err != nil {
		return fmt.Errorf("network: %w", err)
	}

	return errors.Join(networkd.Put(durable.New(root, nil), files), root.Close())
}
