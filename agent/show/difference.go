package show

import (
	"fmt"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/plan"
	"github.com/loam-os/loam/agent/printable"
)

// Difference is the difference between two generations.
type Difference struct {
	// From is the name of the one generation.
	From string `json:"from"`
	// To is the name of the other.
	To string `json:"to"`
	// Files are the paths that differ, sorted.
	Files []File `json:"files,omitempty"`
	// Units are the units that differ, sorted by name.
	Units []Unit `json:"units,omitempty"`
}

// File is a path that differs between the two.
type File struct {
	// Path is where it is on the node.
	Path string `json:"path"`
	// Change is what becomes of it: "added", "changed" or "removed".
	Change plan.Change `json:"change"`
	// Before is the path in the first generation; nil if absent.
	Before *Side `json:"before,omitempty"`
	// After is the path in the second generation; nil if absent.
	After *Side `json:"after,omitempty"`
	// Diff is the unified diff of the content.
	Diff string `json:"diff,omitempty"`
	// Withheld says why the diff is not shown.
	Withheld string `json:"withheld,omitempty"`
}

// Side is a path in one generation: a file or, with Target, a link.
type Side struct {
	// Mode is octal, such as 0644.
	Mode string `json:"mode,omitempty"`
	// Size is in bytes.
	Size int64 `json:"size,omitempty"`

	// Digest is the SHA-256 of the content; "" for a secret, which could be guessed
	// and confirmed by it.
	Digest string `json:"digest,omitempty"`
	// Target is where a link points; "" for a file.
	Target string `json:"target,omitempty"`
}

// maxText is the size of the largest content that is compared by lines.
const maxText = 1 << 20

// Why the content of a file is not shown.
const (
	secret = "secret"
	large  = "larger than 1 MiB"
	binary = "binary"
	lost   = "its content is not in the store"
)

// Comparison is two generations and access to their content.
type Comparison struct {
	From, To generation.Manifest
	// Read returns the content of a file of either.
	Read func(generation.Entry) ([]byte, error)
	// Secrets says to show files that only their owner may read.
	Secrets bool
}

// Difference compares the two generations.
func (c Comparison) Difference() Difference {
	d := Difference{
		From:  c.From.Name(),
		To:    c.To.Name(),
		Units: diffUnits(c.From.Units, c.To.Units),
	}

	before := byPath(c.From)
	after := byPath(c.To)
	for _, f := range plan.Diff(c.From, c.To, nil).Files {
		d.Files = append(d.Files, c.file(f, before[f.Path], after[f.Path]))
	}

	return d
}

func (c Comparison) file(f plan.File, before, after *generation.Entry) File {
	hide := !c.Secrets && (private(before) || private(after))
	file := File{
		Path:   f.Path,
		Change: f.Change,
		Before: side(before, hide),
		After:  side(after, hide),
	}

	if f.Change == plan.ModeOnly {
		return file
	}

	if hide {
		file.Withheld = secret
		return file
	}

	was, why := c.content(before)
	is, whyNot := c.content(after)
	file.Withheld = why
	if why == "" {
		file.Withheld = whyNot
	}

	if file.Withheld == "" {
		file.Diff = string(diff.Diff(name("a", before), was, name("b", after), is))
	}

	return file
}

// content returns the text of a file, nil for a link, or why it is not shown.
func (c Comparison) content(e *generation.Entry) ([]byte, string) {
	if !isFile(e) {
		return nil, ""
	}
	if e.Size > maxText {
		return nil, large
	}

	text, err := c.Read(*e)
	switch {
	case err != nil:
		return nil, lost
	case !printable.IsText(text):
		return nil, binary
	}

	return text, ""
}

// name returns the path as patch(1) expects it.
func name(tree string, e *generation.Entry) string {
	if !isFile(e) {
		return "/dev/null"
	}
	return tree + e.Path
}

func isFile(e *generation.Entry) bool { return e != nil && e.Kind == generation.KindFile }

// private reports whether only its owner may read a file. Unit files do not
// count: all of them have that mode, whatever is in them.
func private(e *generation.Entry) bool {
	return isFile(e) && e.Mode&0o044 == 0 && !strings.HasPrefix(e.Path, "/etc/systemd/system/")
}

func side(e *generation.Entry, hide bool) *Side {
	switch {
	case e == nil:
		return nil
	case e.Kind == generation.KindLink:
		return &Side{Target: e.Target}
	}
	s := Side{Mode: fmt.Sprintf("%04o", generation.Octal(e.Mode)), Size: e.Size, Digest: e.Digest}
	if hide {
		s.Digest = ""
	}
	return &s
}

func byPath(m generation.Manifest) map[string]*generation.Entry {
	entries := make(map[string]*generation.Entry, len(m.Entries))
	for i := range m.Entries {
		entries[m.Entries[i].Path] = &m.Entries[i]
	}
	return entries
}
