package osc

import (
	"maps"
	"slices"
	"strings"

	"github.com/loam-os/loam/agent/config"
)

// Why something is left out.
const (
	whyNodeAgent = "Loam itself is that"
	whySSH       = "this image has no SSH server"
)

// leftOut are the units and files that a document may ask for and a node never
// has, by name and by path: Gardener's own node agent, as Loam is the node
// agent of its nodes, and what turns SSH access on or off, as the image has
// neither sshd nor sudo (Gardener
// pkg/component/extensions/operatingsystemconfig: nodeinit,
// original/components/nodeagent, sshdensurer, gardeneruser).
//
// The names alone count, whatever the units do and wherever the document comes
// from: a copy of what a cluster sends means the same on every way to the node.
// A unit that only has such a name is left out too, and `loam plan` says so.
var leftOut = map[string]string{
	"gardener-node-agent.service":  whyNodeAgent,
	"gardener-node-init.service":   whyNodeAgent,
	"/opt/bin/gardener-node-agent": whyNodeAgent,

	"sshd-ensurer.service":                   whySSH,
	"/var/lib/sshd-ensurer/run.sh":           whySSH,
	"gardener-user.service":                  whySSH,
	"gardener-user.path":                     whySSH,
	"/var/lib/gardener-user/run.sh":          whySSH,
	"/var/lib/gardener-user-authorized-keys": whySSH,
}

// sshUsers are the units that give people SSH access. Without them
// sshd-ensurer.service turns it off, and there is nothing to turn off.
var sshUsers = []string{"gardener-user.path", "gardener-user.service"}

func (u Unit) isLeftOut() bool { return leftOut[u.Name] != "" }

func (f File) isLeftOut() bool { return leftOut[f.Path] != "" }

// leaveOut notes what of the document is left out, and what a person should
// know of that.
func leaveOut(desired *config.Desired, osc OperatingSystemConfig, env Env) {
	names := map[string]bool{}
	for _, unit := range osc.units() {
		if unit.value.isLeftOut() {
			names[unit.value.Name] = true
		}
	}

	for _, file := range osc.files() {
		if file.value.isFor(env) && file.value.isLeftOut() {
			names[file.value.Path] = true
		}
	}

	var units []string
	for _, name := range slices.Sorted(maps.Keys(names)) {
		desired.LeftOut = append(desired.LeftOut, config.LeftOut{Name: name, Why: leftOut[name]})
		if leftOut[name] == whySSH && !strings.HasPrefix(name, "/") {
			units = append(units, name)
		}
	}

	asks := func(name string) bool { return slices.Contains(sshUsers, name) }
	if slices.ContainsFunc(units, asks) {
		desired.Notes = append(desired.Notes, config.Note{
			Reason:  config.NoteNoSSH,
			Problem: "SSH access: " + whySSH + ", so it goes without " + strings.Join(units, ", "),
			Hint: "`kubectl debug node/NAME` gives a shell; " +
				"workersSettings.sshAccess.enabled: false in the Shoot ends this note",
		})
	}
}
