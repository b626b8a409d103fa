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
	// Namespace is the namespace of the Secret.
	Namespace string `json:"namespace"`
	// Name is the name of the Secret.
	Name string `json:"name"`
	// Before is the checksum that was there, absent if there was none.
	Before string `json:"before,omitempty"`
	// Checksum is the one that is there now, which each Node shows once it has
	// applied it.
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
