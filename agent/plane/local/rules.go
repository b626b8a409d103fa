package local

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"

	"github.com/loam-os/loam/agent/plane"
)

// DeleteRules deletes the rules of kube-proxy from the kernel, which has them until
// it ends. kube-proxy must not run.
func DeleteRules(ctx context.Context) error {
	command := plane.DeleteRules()
	out, err := exec.CommandContext(ctx, command[0], command[1:]...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("delete the rules of kube-proxy: %w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}
