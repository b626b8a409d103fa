package inplace

import "time"

// Step is one step of an update.
type Step string

const (
	// Nothing means that no step is due.
	Nothing Step = ""
	// Await waits until the node is drained.
	Await Step = "await"
	// Configure applies the configuration.
	Configure Step = "configure"
	// Kubelet waits until the kubelet is healthy.
	Kubelet Step = "kubelet"
	// OS boots another release. The update resumes after the boot.
	OS Step = "os"
	// GaveUp means that the node came back with its previous release.
	GaveUp Step = "gave up"
	// Agent requests a certificate of the new authority for the agent.
	Agent Step = "agent"
	// Rejoin makes the kubelet request one, too.
	Rejoin Step = "rejoin"
	// Tokens waits for tokens of the new key.
	Tokens Step = "tokens"
	// Clear deletes the pods, which ran on the old node.
	Clear Step = "clear"
	// Report reports that the update is done.
	Report Step = "report"
)

// Record is the durable state of updates.
type Record struct {
	// Done are the facts that were reached.
	Done Facts `json:"done"`

	// Agent is the start of the rotation after which the agent's certificate
	// was issued.
	Agent time.Time `json:"agent,omitzero"`

	// Version is the digest of the configuration being updated to, "" if none.
	// Cleared says that only Report is left. Boot is the boot ID in which
	// another OS was requested.
	Version string `json:"version,omitempty"`
	Cleared bool   `json:"cleared,omitempty"`
	Boot    string `json:"boot,omitempty"`
}

// State is the observed state of the node, which [Next] decides on.
type State struct {
	Record

	// Want are the facts of the configuration whose digest is Offered.
	Want    Facts
	Offered string

	// Image is the running IMAGE_VERSION, Tried the one that was tried last,
	// BootID the ID of this boot, "" if unknown.
	Image, Tried, BootID string

	// Drained says that the node may be updated.
	Drained bool

	// Applied says that the node runs the offered configuration and is healthy.
	Applied bool
}

// Next returns the next step. An update that has begun goes on even if the node
// is no longer Drained: it is halfway.
//
// Another configuration may come meanwhile, for which nothing is left to change, as
// the update has done that already, or as it goes back. The update is completed with
// that one: otherwise nobody would hear that the node can have its pods again.
func Next(s State) Step {
	c := Diff(s.Done, s.Want, s.Image)
	began := s.Version != "" && s.Version == s.Offered
	isLeft := s.Version != "" && s.Drained
	switch {
	case !c.Any() && !began && !isLeft:
		return Nothing
	case !began && !s.Drained:
		return Await
	case !began || !s.Applied:
		return Configure
	case c.Kubelet || c.Reserved || c.CPUManagerPolicy:
		return Kubelet
	case c.OS && s.Tried == s.Want.OS && (s.BootID == "" || s.BootID != s.Boot):
		// It has been booted since.
		return GaveUp
	case c.OS:
		return OS
	case c.CertificateAuthorities && !s.Agent.Equal(s.Want.CertificateAuthorities):
		return Agent
	case c.CertificateAuthorities:
		return Rejoin
	case c.ServiceAccountKey:
		return Tokens
	}

	if !s.Cleared {
		return Clear
	}

	return Report
}

// After returns the Record after a step has succeeded.
func (r Record) After(s Step, want Facts) Record {
	switch s {
	case Kubelet:
		r.Done.Kubelet = want.Kubelet
		r.Done.Reserved = want.Reserved
		r.Done.CPUManagerPolicy = want.CPUManagerPolicy
	case Agent:
		r.Agent = want.CertificateAuthorities
	case Rejoin:
		r.Done.CertificateAuthorities = want.CertificateAuthorities
	case Tokens:
		r.Done.ServiceAccountKey = want.ServiceAccountKey
	case Clear:
		r.Cleared = true
	case Report:
		r = Record{Done: want, Agent: r.Agent}
	}

	return r
}
