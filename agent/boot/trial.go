package boot

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// journal is the part of an upgrade's journal that /init needs (agent/upgrade,
// Journal).
type journal struct {
	Phase  string `json:"phase"`
	Target struct {
		RootHash string `json:"rootHash"`
	} `json:"target"`
}

// onTrial reports whether the system with that root hash is from an upgrade and
// has not been accepted yet. state is /var/lib/loam.
func onTrial(state fs.FS, rootHash string) bool {
	text, err := fs.ReadFile(state, "upgrade.json")
	if err != nil {
		return false
	}
	var j journal
	return json.Unmarshal(text, &j) == nil && j.Phase == "armed" && j.Target.RootHash == rootHash
}

// trialUnit makes systemd restart the machine if, on trial, its agent does not
// start or does not stay up. Without an agent nothing else could end the trial.
// It is for this boot only.
const (
	trialUnit = "[Unit]\nJobTimeoutSec=15min\nJobTimeoutAction=reboot-force\n" +
		"StartLimitIntervalSec=10min\nStartLimitBurst=5\nStartLimitAction=reboot-force\n" +
		"[Service]\nRestartSec=5\n"
	trialDir  = "systemd/system/loam-agent.service.d"
	trialName = "50-loam-trial.conf"
)

// superviseTrial writes trialUnit beneath /run.
func superviseTrial(run string) error {
	dir := filepath.Join(run, trialDir)
	err := errors.Join(os.MkdirAll(dir, 0o755),
		os.WriteFile(filepath.Join(dir, trialName), []byte(trialUnit), 0o644))
	if err != nil {
		return fmt.Errorf("supervise the trial: %w", err)
	}
	return nil
}

// EndTrial removes the file that superviseTrial wrote. The caller must reload
// systemd.
func EndTrial(run string) error {
	err := os.Remove(filepath.Join(run, trialDir, trialName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("end the trial: %w", err)
	}
	return nil
}
