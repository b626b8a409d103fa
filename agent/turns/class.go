package turns

import (
	"strings"

	"github.com/loam-os/loam/agent/plan"
)

// Class says what a change disturbs on a node. The order is that of their
// weight.
type Class int

const (
	// None disturbs nothing: it needs no turn.
	None Class = iota
	// Kubelet restarts something: it needs a turn, and pods stay.
	Kubelet
	// Pods may stop pods.
	Pods
	// Reboot restarts the machine.
	Reboot
)

var classes = [...]string{"none", "kubelet", "pods", "reboot"}

// String returns the name of the class.
func (c Class) String() string { return classes[c] }

// MarshalText implements [encoding.TextMarshaler].
func (c Class) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler]. A class that a later
// version made is the heaviest.
func (c *Class) UnmarshalText(text []byte) error {
	*c = Reboot
	for i, name := range classes {
		if name == string(text) {
			*c = Class(i)
		}
	}
	return nil
}

// ClassOf returns the class of a change by its exact plan. Whatever stops or
// restarts needs a turn, also a unit that is not known here.
func ClassOf(p plan.Plan) Class {
	class := None
	for _, f := range p.Files {
		class = max(class, classOfFile(f.Path))
	}
	for _, a := range p.Units {
		class = max(class, classOfAction(a))
	}
	return class
}

// classOfFile returns the class of a file that takes effect without its unit.
func classOfFile(path string) Class {
	for _, of := range []struct {
		directory string
		class     Class
	}{
		{"/etc/cni/", Pods},
		{"/opt/cni/", Pods},
		{"/etc/kubernetes/manifests/", Kubelet},
		{"/etc/systemd/network/", Kubelet},
	} {
		if strings.HasPrefix(path, of.directory) {
			return of.class
		}
	}
	return None
}

func classOfAction(a plan.Action) Class {
	switch {
	case a.Verb != plan.Stop && a.Verb != plan.Restart:
		return None
	case a.Unit == "containerd.service", strings.HasSuffix(a.Unit, ".mount"):
		return Pods
	}
	return Kubelet
}
