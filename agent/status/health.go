package status

import (
	"fmt"
	"slices"
	"strings"

	"github.com/loam-os/loam/hint/fault"
)

// Health says in one word how a node is.
type Health string

const (
	// Well means that the node is what its configuration wants.
	Well Health = "well"
	// Degraded means that its units are well, and something beside them is not.
	Degraded Health = "degraded"
	// Unwell means that it is not what its configuration wants.
	Unwell Health = "not well"
	// Changing means that it is being made something else.
	Changing Health = "changing"
	// Idle means that it has no configuration to follow.
	Idle Health = "idle"
)

// Assess returns how the node is, and why in one sentence.
func (s Status) Assess() (Health, string) {
	unsettled := s.unsettled()
	switch {
	case s.Repair != nil && s.Repair.State == Repairing:
		return Changing, "the state partition is being repaired"
	case s.Repair != nil && s.Repair.Code == fault.StateLocked:
		return Unwell, "the encrypted state is not open, and the state in memory"
	case s.Repair != nil && s.Repair.State == RepairFailed:
		return Unwell, "the state is in memory, as its partition is damaged"
	case s.Phase == "":
		return Changing, "the agent starts"
	case s.Reset != nil:
		return s.assessReset()
	case s.Phase == Applying && s.Change != nil && s.Change.Good != "":
		return Changing, "from " + number(s.Change.Good) + " to " + number(s.Generation)
	case s.Phase == Applying:
		return Changing, "a configuration is being applied"
	case s.Phase == Failed && !s.isWellBefore():
		return Unwell, s.fault(unsettled)
	case s.Phase == Waiting && s.Cluster.cannotJoin():
		return Unwell, "it cannot join its cluster"
	case s.Phase == Waiting:
		return Idle, "no configuration yet"
	case s.Volume.isMissing():
		return Unwell, "the data volume is missing"
	case s.EtcdVolume.isMissing():
		return Unwell, "the etcd volume is missing"
	}

	if problem := s.beside(); problem != "" {
		return Degraded, problem
	}
	if s.isWellBefore() {
		return Well, "on the configuration before; the newest was refused"
	}
	if len(unsettled) > 0 {
		return Degraded, isNotAsWanted(unsettled)
	}
	return Well, "the node is as its configuration wants it"
}

// isMissing reports whether a volume is claimed and not there.
func (v *Volume) isMissing() bool { return v != nil && v.Problem != "" }

// cannotJoin reports whether something keeps a node without a configuration from
// its cluster.
func (c *Cluster) cannotJoin() bool { return c != nil && c.Problem != "" }

func (s Status) assessReset() (Health, string) {
	switch {
	case s.Reset.Done:
		return Idle, "the node was reset"
	case s.Phase == Failed:
		return Unwell, "the reset is not complete"
	}
	return Changing, "the node is being reset"
}

// fault says what keeps a node from being what it should be.
func (s Status) fault(unsettled []string) string {
	switch {
	case s.Error != nil && s.Error.Code == fault.AgentEnded:
		return "the node agent has ended"
	case s.Volume.isMissing():
		return "the data volume is missing"
	case s.EtcdVolume.isMissing():
		return "the etcd volume is missing"
	case len(unsettled) > 0:
		return isNotAsWanted(unsettled)
	case s.Refused && s.Generation == "":
		return "its first configuration was refused"
	case s.Error != nil && s.Error.Unit != "":
		return "unit " + s.Error.Unit + " has failed"
	case s.Error != nil && s.Error.Document != "":
		return "there is a mistake in " + s.Error.Document
	}
	return "see the error"
}

// beside returns what is wrong beside the units, "" if nothing is. A full file
// system or a limit that is used up comes first, as other problems may follow from it.
func (s Status) beside() string {
	room := s.room()
	switch {
	case room != "" && s.isFull():
		return room
	case len(s.Limits) > 0:
		return "a limit of the kernel is used up: " + s.Limits[0].Name
	case s.Cluster != nil && !s.Cluster.Connected &&
		(s.Cluster.Problem != "" || s.Cluster.Reached):
		return "the cluster is not reached"
	case s.Cluster != nil && s.Cluster.Problem != "":
		return "there is a problem with the cluster"
	case s.Network != nil && len(s.Network.Problems) > 0:
		return "the network is not as machine.yaml wants it"
	case s.Upgrade != nil && s.Upgrade.Problem != "":
		return "an upgrade does not go on"
	case s.Upgrade != nil && len(s.Upgrade.Damage) > 0:
		return "the EFI system partition is damaged"
	case s.Upgrade != nil && s.Upgrade.TableDamage != "":
		return "the partition table is damaged"
	case s.Error != nil && ofDisk(s.Error.Code) != "":
		return ofDisk(s.Error.Code)
	case s.failingDisk() != "":
		return "a disk fails: " + s.failingDisk()
	case room == "" && s.Clock != nil:
		return "the clock may be wrong"
	}
	return room
}

// isFull reports whether a file system is full.
func (s Status) isFull() bool {
	return slices.ContainsFunc(s.Storage, func(f FileSystem) bool { return f.Full })
}

// failingDisk returns the name of a disk that fails, "" if none does.
func (s Status) failingDisk() string {
	for _, d := range s.Disks {
		if d.Code == fault.DiskFailing {
			return d.Name
		}
	}
	return ""
}

// room says which file system has the least room, "" if all have enough.
func (s Status) room() string {
	for _, full := range []bool{true, false} {
		for _, f := range s.Storage {
			if f.Full == full {
				problem, _, _ := strings.Cut(f.Problem, ":")
				return problem
			}
		}
	}
	return ""
}

// ofDisk says what an error of the disk with the state is, "" for other errors.
func ofDisk(code fault.Code) string {
	switch code {
	case fault.DiskFull:
		return "the disk is full"
	case fault.DiskError:
		return "the disk cannot be read or written"
	case fault.ReadOnly:
		return "a file system is read-only"
	}
	return ""
}

// unsettled returns the names of the units that are not in the desired state.
func (s Status) unsettled() []string {
	var names []string
	for _, u := range s.Units {
		if !u.Settled {
			names = append(names, u.Name)
		}
	}
	return names
}

func isNotAsWanted(units []string) string {
	text := "unit " + units[0] + " is not as wanted"
	if more := len(units) - 1; more > 0 {
		text = fmt.Sprintf("unit %s and %d more are not as wanted", units[0], more)
	}
	return text
}

// isWellBefore reports whether the node refuses the newest configuration, and all
// units are as the generation before wants them.
func (s Status) isWellBefore() bool {
	return s.Refused && s.Generation != "" && len(s.unsettled()) == 0
}

// number returns the number in the name of a generation.
func number(name string) string {
	digits, _, _ := strings.Cut(name, "-")
	return digits
}
