package cluster

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strconv"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/content"
	"github.com/loam-os/loam/agent/osc"
)

// A configuration may refer to keys of Secrets, whose values change without it.
// In a pool with a policy, new values are another configuration: they wait for a
// turn, and their failure is remembered, like those of another text. Without a
// policy they are applied at once.
//
// A file may be for one host name only. Its values are no others' business: all nodes
// of a pool with the same text and the same values of the other files have the same
// target, by which they take turns.

// value is what a Secret had for a reference.
type value struct {
	data []byte

	// secret and revision are the UID and the version of the Secret.
	secret   types.UID
	revision uint64
}

// values are the values of references; one that is absent is not in it.
type values map[osc.Reference]value

// secretReferences returns the keys of Secrets that a configuration refers to on
// the node with that host name, and those of them that it refers to on every node.
func secretReferences(text []byte, hostname string) (all, common []osc.Reference) {
	if !bytes.Contains(text, []byte("secretRef")) {
		return nil, nil // Decoding takes time.
	}

	decoded, _ := osc.Decode(dataKey, text) // The loop reports its errors.
	secretsOn := func(hostname string) []osc.Reference {
		all := osc.References(decoded, osc.Env{Hostname: hostname})
		return slices.DeleteFunc(all, func(r osc.Reference) bool { return r.Secret == "" })
	}
	return secretsOn(hostname), secretsOn("")
}

// valuesOf returns the values of references in the newest Secrets. What is absent
// there, as its Secret was deleted, is as it was before: the node keeps it.
func valuesOf(references []osc.Reference, newest map[string]*core.Secret, before values) values {
	all := values{}
	for _, r := range references {
		if v, ok := before[r]; ok {
			all[r] = v
		}

		secret := newest[r.Secret]
		if secret == nil {
			continue
		}
		if data, ok := secret.Data[r.Key]; ok {
			revision, _ := strconv.ParseUint(secret.ResourceVersion, 10, 64) // 0 sorts first.
			all[r] = value{data: data, secret: secret.UID, revision: revision}
		}
	}
	return all
}

// digest returns a digest of a configuration with that digest of its text and
// the values of these references, which is that of its text if there are none. Nodes
// publish it: the random UIDs keep a value from being found by trying all that it may
// be.
func (v values) digest(textSum string, references []osc.Reference) string {
	if len(references) == 0 {
		return textSum
	}

	type entry struct {
		Reference osc.Reference
		Secret    types.UID
		Value     []byte
	}
	all := struct {
		Text    string
		Entries []entry
	}{Text: textSum}
	for _, r := range references {
		if have, ok := v[r]; ok {
			all.Entries = append(all.Entries, entry{r, have.secret, have.data})
		}
	}

	text, _ := json.Marshal(all) // Texts and bytes only.
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// with returns p with the values of its references. areKnown says that each
// Secret was looked for.
func (p pendingConfig) with(v values, areKnown bool) pendingConfig {
	p.textSum = p.base()
	p.values = v
	p.areKnown = areKnown
	p.sum = v.digest(p.textSum, p.references)
	p.target = v.digest(p.textSum, p.common)
	for _, r := range p.common {
		p.revision = max(p.revision, v[r].revision)
	}
	return p
}

// base returns the digest of the text.
func (p pendingConfig) base() string {
	if p.textSum != "" {
		return p.textSum
	}
	return p.sum
}

// setValues gives the pending configuration the values of its references.
func (w *world) setValues(newest map[string]*core.Secret) {
	if w.pending == nil || len(w.pending.references) == 0 {
		return
	}

	var before values
	if w.released != nil {
		before = w.released.values
	}
	p := *w.pending
	v := valuesOf(p.references, newest, before)
	areKnown := !slices.ContainsFunc(p.references, func(r osc.Reference) bool {
		_, known := newest[r.Secret]
		return !known
	})

	next := p.with(v, areKnown || p.areKnown)
	if next.sum == p.sum && next.revision == p.revision && next.areKnown == p.areKnown {
		return // Others compare the pointers.
	}
	w.pending = &next
}

// awaitsValues reports whether a Secret that the pending configuration refers to
// was not looked for yet. Without an answer, the node goes on without it.
func (w world) awaitsValues() bool {
	p := w.pending
	return len(p.references) > 0 && !p.areKnown && w.now.Before(p.since.Add(secretTimeout))
}

// refersTo reports whether p refers to a key of a Secret on this node.
func (p *pendingConfig) refersTo(r osc.Reference) bool {
	return p != nil && slices.Contains(p.references, r)
}

// Secret implements [content.Provider] with the values that p has.
func (p *pendingConfig) Secret(_ context.Context, name, key string) (config.Content, error) {
	v, ok := p.values[osc.Reference{Secret: name, Key: key}]
	if !ok {
		return config.Content{}, content.ErrAbsent
	}
	return config.Inline(v.data), nil
}

// Image implements [content.Provider]. A cluster has no images.
func (p *pendingConfig) Image(context.Context, string, string) (config.Content, error) {
	return config.Content{}, content.ErrAbsent
}
