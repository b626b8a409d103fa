package inplace

import "time"

// Step is what comes next in an update.
type Step string

const (
	// Nothing is to be done.
	Nothing Step = ""
	// Await that the node is drained.
	Await Step = "await"
	// Configure makes the node what its configuration says.
	Configure Step = "configure"
	// Kubelet is to be well with it.
	Kubelet Step = "kubelet"
	// OS is to become another. The next start goes on.
	OS Step = "os"
	// GaveUp is an OS that came back as it was.
	GaveUp Step = "gave up"
	// Agent needs a certificate of the new authority.
	Agent Step = "agent"
	// Rejoin has the kubelet ask for one, too.
	Rejoin Step = "rejoin"
	// Tokens of the new key are to be in their files.
	Tokens Step = "tokens"
	// Clear deletes the pods, which saw the old node.
	Clear Step = "clear"
	// Tell that all is done.
	Tell Step = "tell"
)

// Record is what the node remembers of updates.
type Record struct {
	// Done is as far as it has come.
	Done Facts `json:"done"`

	// Agent is the rotation after whose beginning the agent's certificate was
	// issued.
	Agent time.Time `json:"agent,omitzero"`

	// Version is that of the configuration it is updating to, "" if it is not.
	// Cleared says that only Tell is left, Boot is that in which another OS was
	// asked for.
	Version string `json:"version,omitempty"`
	Cleared bool   `json:"cleared,omitempty"`
	Boot    string `json:"boot,omitempty"`
}

// Node is how it stands.
type Node struct {
	Record

	// Want is what the configuration says whose version is Offered.
	Want    Facts
	Offered string

	// Image is the IMAGE_VERSION that runs, Tried the one that was tried last,
	// BootID that of this boot, "" if it is not known.
	Image, Tried, BootID string

	// Drained says that it may be updated.
	Drained bool

	// Applied says that it runs the configuration that is offered, and that all
	// is well with that.
	Applied bool
}

// Next decides. An update that has begun goes on, whatever becomes of Drained:
// the node is half way then.
func Next(n Node) Step {
	c := Diff(n.Done, n.Want, n.Image)
	began := n.Version != "" && n.Version == n.Offered
	switch {
	case !c.Any() && !began:
		return Nothing
	case !began && !n.Drained:
		return Await
	case !began || !n.Applied:
		return Configure
	case c.Kubelet || c.Reserved || c.CPUManagerPolicy:
		return Kubelet
	case c.OS && n.Tried == n.Want.OS && (n.BootID == "" || n.BootID != n.Boot):
		// It has been started since.
		return GaveUp
	case c.OS:
		return OS
	case c.CertificateAuthorities && !n.Agent.Equal(n.Want.CertificateAuthorities):
		return Agent
	case c.CertificateAuthorities:
		return Rejoin
	case c.ServiceAccountKey:
		return Tokens
	}

	if !n.Cleared {
		return Clear
	}

	return Tell
}

// After is the Record once a step has succeeded.
func (r Record) After(s Step, want Facts) Record {
	switch s {
	case Kubelet:
		r.Done.Kubelet, r.Done.Reserved, r.Done.CPUManagerPolicy = want.Kubelet, want.Reserved,
			want.CPUManagerPolicy
	case Agent:
		r.Agent = want.CertificateAuthorities
	case Rejoin:
		r.Done.CertificateAuthorities = want.CertificateAuthorities
	case Tokens:
		r.Done.ServiceAccountKey = want.ServiceAccountKey
	case Clear:
		r.Cleared = true
	case Tell:
		r = Record{Done: want, Agent: r.Agent}
	}
	return r
}
