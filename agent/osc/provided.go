package osc

import (
	"maps"
	"slices"
	"strings"

	"github.com/loam-os/loam/agent/config"
)

// Reasons to leave a unit or a file out.
const (
	whyNodeAgent = "Loam is the node agent"
	whySSH       = "this image has no SSH server"
)

// leftOut are the units and files that a document may ask for and a node never
// has, by name and by path. Loam is the node agent, so they include Gardener's
// own. The image has neither sshd nor sudo, so they include what turns SSH
// access on or off (Gardener pkg/component/extensions/operatingsystemconfig:
// nodeinit, original/components/nodeagent, sshdensurer, gardeneruser).
//
// Only the names count, whatever the units do and wherever the document comes
// from: a copy of a cluster's document means the same on every way to the node.
// Any other unit with one of these names is left out too, and `loam plan` says
// so.
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

// sshUsers are the units that give operators SSH access. Without them
// sshd-ensurer.service turns SSH off, which needs no note.
var sshUsers = []string{"gardener-user.path", "gardener-user.service"}

func (u Unit) isLeftOut() bool { return leftOut[u.Name] != "" }

func (f File) isLeftOut() bool { return leftOut[f.Path] != "" }

// leaveOut records which parts of the document are left out, and what the
// operator should know about it.
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
