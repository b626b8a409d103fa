package show

import (
	"fmt"
	"slices"
	"strings"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/generation"
)

// Notes returns what a plan for d does not show: what is left out or waits, and
// what prevents the agent from applying it.
func Notes(
	d config.Desired, have generation.Manifest, held []apply.Held, pending *generation.Journal,
) []string {
	var notes []string
	for _, p := range d.Probes {
		if !hasContent(have, d, p.Path) {
			notes = append(notes,
				fmt.Sprintf("%s waits until %s answers", p.Path, strings.Join(p.URLs, ", ")))
		}
	}

	for _, out := range d.LeftOut {
		notes = append(notes, out.Name+" is left out: "+out.Why)
	}

	for _, note := range d.Notes {
		text := note.String()
		if note.Hint != "" {
			text += "; hint: " + note.Hint
		}
		notes = append(notes, text)
	}

	if d.Update != nil && d.Update.OSVersion != "" {
		notes = append(notes, "OS version "+d.Update.OSVersion+" is wanted")
	}
	if d.Update != nil && d.Update.Kubelet != "" {
		notes = append(notes, "kubelet "+d.Update.Kubelet+" is wanted")
	}

	digest := d.Digest()
	for _, h := range held {
		if strings.HasPrefix(digest, h.Digest) {
			notes = append(notes, "held, so not applied unless asked for with `loam apply`: "+h.Why)
		}
	}

	if pending != nil && pending.Try != nil {
		notes = append(notes,
			pending.To+" is on trial: `loam confirm` or `loam rollback` comes first")
	}

	return notes
}

// hasContent reports whether have has the file of that path as d wants it.
func hasContent(have generation.Manifest, d config.Desired, path string) bool {
	want := slices.IndexFunc(d.Files, func(f config.File) bool { return f.Path == path })
	return want >= 0 && slices.ContainsFunc(have.Entries, func(e generation.Entry) bool {
		return e.Path == path && e.Digest == d.Files[want].Content.Digest
	})
}
