package cluster

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/loam-os/loam/agent/printable"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/firmware/bootentry"
	"github.com/loam-os/loam/hint/fault"
)

// Conditions of the Node. unitsReady tells Gardener whether the units are
// healthy, upgradeFailed whether the node fell back from a newer release;
// diskFailing and diskWorn are what the disks say of themselves.
const (
	unitsReady    = "SystemdUnitsReady"
	upgradeFailed = "SystemUpgradeFailed"
	diskFailing   = "DiskFailing"
	diskWorn      = "DiskWorn"
)

// stuckAfter is how long a unit may be starting or stopping.
const stuckAfter = 5 * time.Minute

// restartTakes is how long a restart of a unit takes at most, mostly. The Node is not
// told of one: that would be two writes for each node of each rollout.
const restartTakes = 30 * time.Second

// Reasons of unitsReady.
const (
	unitsHealthy     = "AllUnitsHealthy"
	unitsProgressing = "ProgressingUnits"
)

// isMoving reports whether a unit is starting or stopping.
func isMoving(u status.Unit) bool {
	return slices.Contains([]string{"activating", "deactivating", "reloading"}, u.Active)
}

// areRestarting reports whether units have only begun to start or stop at uptime.
func areRestarting(units []status.Unit, uptime time.Duration) bool {
	return !slices.ContainsFunc(units, func(u status.Unit) bool {
		isRestarting := isMoving(u) && u.Sub != "auto-restart" &&
			uptime-time.Duration(u.Since) < restartTakes
		return !u.Settled && !isRestarting
	})
}

// unitsCondition returns the condition of the units at uptime. It is False
// while the node refuses the newest configuration and Unknown on a node without
// one.
func unitsCondition(s status.Status, r refusal, uptime time.Duration) core.NodeCondition {
	var bad, busy []string
	for _, u := range s.Units {
		text := fmt.Sprintf("%s is %s/%s", u.Name, u.Active, u.Sub)
		switch {
		case u.Settled:
		case u.Sub == "auto-restart", isMoving(u) && uptime-time.Duration(u.Since) < stuckAfter:
			busy = append(busy, text)
		default:
			bad = append(bad, text)
		}
	}

	condition := func(is core.ConditionStatus, reason, message string) core.NodeCondition {
		return core.NodeCondition{
			Type:    unitsReady,
			Status:  is,
			Reason:  reason,
			Message: message,
		}
	}

	switch {
	case r.reason != "":
		return condition(core.ConditionFalse, r.reason,
			strings.Join(append([]string{r.message}, bad...), ", "))
	case s.Generation == "":
		return condition(core.ConditionUnknown, "NoConfiguration", "the node has no configuration")
	case len(bad) > 0:
		return condition(core.ConditionFalse, "UnhealthyUnits", strings.Join(bad, ", "))
	case len(busy) > 0:
		return condition(core.ConditionTrue, unitsProgressing, strings.Join(busy, ", "))
	}

	return condition(core.ConditionTrue, unitsHealthy, "all units are as wanted")
}

// upgradeCondition returns the outcome of the newest release that was tried on
// this node.
func upgradeCondition(s status.Status) core.NodeCondition {
	c := core.NodeCondition{
		Type:    upgradeFailed,
		Status:  core.ConditionFalse,
		Reason:  "NoFailure",
		Message: s.ImageID + " " + s.ImageVersion + " runs",
	}

	if s.Upgrade == nil {
		return c
	}

	for _, f := range s.Upgrade.Failed {
		if bootentry.CompareVersions(f.Version, s.ImageVersion) > 0 {
			c.Status = core.ConditionTrue
			c.Reason = "FellBack"
			c.Message = fmt.Sprintf(
				"%s did not stay, %s runs again: %s", f.Version, s.ImageVersion, f.Reason,
			)
		}
	}

	return c
}

// diskConditions return whether a disk fails, and whether one is worn. Until the
// disks were asked, there are none.
func diskConditions(s status.Status) []core.NodeCondition {
	if s.Disks == nil {
		return nil
	}

	problems := func(code fault.Code) string {
		var all []string
		for _, d := range s.Disks {
			if d.Code == code {
				all = append(all, d.Problem)
			}
		}
		return strings.Join(all, ", ")
	}

	fails := core.NodeCondition{
		Type:    diskFailing,
		Status:  core.ConditionFalse,
		Reason:  "NoDiskFails",
		Message: "no disk says that it fails",
	}
	if text := problems(fault.DiskFailing); text != "" {
		fails.Status, fails.Reason, fails.Message = core.ConditionTrue, "DiskFailing", text
	}
	worn := core.NodeCondition{
		Type:    diskWorn,
		Status:  core.ConditionFalse,
		Reason:  "NoDiskWorn",
		Message: "no disk is worn",
	}
	if text := problems(fault.DiskWorn); text != "" {
		worn.Status, worn.Reason, worn.Message = core.ConditionTrue, "DiskWorn", text
	}
	return []core.NodeCondition{fails, worn}
}

// conditionPatch returns a strategic merge patch of the Node's status that sets
// its conditions, nil if they are set. It does not add a condition without
// content: units without a configuration, or upgrades that have not failed. A
// refusal that an earlier run of the agent reported stays until this run has
// read a document, and units that were as wanted stay so while they are restarted.
func conditionPatch(
	n *core.Node, s status.Status, r refusal, uptime time.Duration, now time.Time,
) []byte {
	var changes []core.NodeCondition
	all := append(diskConditions(s), unitsCondition(s, r, uptime), upgradeCondition(s))
	for _, next := range all {
		next.Message = printable.Message(next.Message, printable.Most)
		next.LastHeartbeatTime = meta.NewTime(now)
		next.LastTransitionTime = meta.NewTime(now)

		at := slices.IndexFunc(n.Status.Conditions, func(c core.NodeCondition) bool {
			return c.Type == next.Type
		})
		if at < 0 {
			if (next.Type == unitsReady && next.Status != core.ConditionUnknown) ||
				next.Status == core.ConditionTrue {
				changes = append(changes, next)
			}
			continue
		}

		have := n.Status.Conditions[at]
		if s.Offered == "" && isRefusalReason(have.Reason) {
			continue
		}
		if have.Reason == unitsHealthy && next.Reason == unitsProgressing &&
			areRestarting(s.Units, uptime) {
			continue
		}

		if have.Status == next.Status {
			next.LastTransitionTime = have.LastTransitionTime
		}

		if have.Status != next.Status || have.Reason != next.Reason ||
			have.Message != next.Message {
			changes = append(changes, next)
		}
	}

	if len(changes) == 0 {
		return nil
	}

	text, _ := json.Marshal(map[string]any{"status": map[string]any{"conditions": changes}})
	return text
}
