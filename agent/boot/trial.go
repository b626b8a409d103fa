package boot

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// journal is what /init reads of the journal of an upgrade (agent/upgrade,
// Journal).
type journal struct {
	Phase  string `json:"phase"`
	Target struct {
		RootHash string `json:"rootHash"`
	} `json:"target"`
}

// onTrial reports whether the system of that root hash was brought by an upgrade
// and has not said yet that it is well. state is /var/lib/loam.
func onTrial(state fs.FS, rootHash string) bool {
	text, err := fs.ReadFile(state, "upgrade.json")
	if err != nil {
		return false
	}
	var j journal
	return json.Unmarshal(text, &j) == nil && j.Phase == "armed" && j.Target.RootHash == rootHash
}

// trialUnits have systemd restart the machine when, on trial, the system does not
// get up, or its agent does not stay up: nobody else could say so. They are for
// this boot only.
var trialUnits = map[string]string{
	"multi-user.target.d": "[Unit]\nJobTimeoutSec=15min\nJobTimeoutAction=reboot-force\n",
	"loam-agent.service.d": "[Unit]\nStartLimitIntervalSec=10min\nStartLimitBurst=5\nStartLimitAction=reboot-force\n" +
		"[Service]\nRestartSec=5\n",
}

// superviseTrial writes trialUnits beneath /run.
func superviseTrial(run string) error {
	var errs []error
	for dir, text := range trialUnits {
		dir = filepath.Join(run, "systemd/system", dir)
		errs = append(errs, os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "50-loam-trial.conf"), []byte(text), 0o644))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("supervise the trial: %w", err)
	}
	return nil
}
