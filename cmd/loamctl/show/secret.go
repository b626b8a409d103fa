package show

import (
	"cmp"
	"fmt"

	"github.com/loam-os/loam/cmd/loamctl/secret"
)

// Published is a configuration that was given to the nodes of a cluster.
type Published struct {
	// Result is "created", "updated" or "unchanged".
	Result string `json:"result"`
	// Namespace and Name are the names of the Secret.
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Before is the checksum that was there, absent if there was none. Checksum is
	// the one that is there now, which each Node shows once it has applied it.
	Before   string `json:"before,omitempty"`
	Checksum string `json:"checksum"`
}

// NewPublished describes the result of a Secret.
func NewPublished(s secret.Secret, o secret.Outcome) Published {
	return Published{
		Result:    string(o.Result),
		Namespace: secret.Namespace,
		Name:      s.Name,
		Before:    o.Before,
		Checksum:  s.Checksum(),
	}
}

// Text is for people.
func (p Published) Text() string {
	return fmt.Sprintf("%s %s/%s\nwas  %s\nis   %s\n",
		p.Result, p.Namespace, p.Name, cmp.Or(p.Before, "none"), p.Checksum)
}
