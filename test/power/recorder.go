package power

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"

	"github.com/loam-os/loam/agent/durable"
)

// Op is one step, its names relative to the root of the tree.
type Op struct {
	durable.Step
	// Data and Mode are what a Write or an Append made of the file.
	Data []byte
	Mode fs.FileMode
	// Note is what Recorder.Note returned before the step.
	Note any
}

// Mark is an Op that changes no file: something else happened, as From says.
const Mark durable.Op = "mark"

// Recorder keeps the steps that are done to a tree.
type Recorder struct {
	// Note, if it is set, is called before each step.
	Note func() any

	root *os.Root
	base *Disk
	live *Disk
	ops  []Op
	// open is the last op as long as its effect is not known.
	open *Op
	err  error
}

// NewRecorder begins with the content of the tree, which base describes.
func NewRecorder(root *os.Root, base *Disk) *Recorder {
	return &Recorder{root: root, base: base, live: base.Clone()}
}

// Hook is for a durable.Dir whose root is the directory dir of the tree, "" for
// its root.
func (r *Recorder) Hook(dir string) durable.Hook {
	return func(s durable.Step) error {
		r.finish()
		s.Name = path.Join(dir, s.Name)

		if s.From != "" && s.Op != durable.Symlink {
			s.From = path.Join(dir, s.From)
		}

		r.begin(s)
		return r.err
	}
}

// Mark adds a Mark to the record.
func (r *Recorder) Mark(what string) {
	r.finish()
	r.begin(durable.Step{Op: Mark, Name: ".", From: what})
}

// begin adds a step. A step that removes a tree becomes a step for each name,
// because a cut may leave any part of the tree.
func (r *Recorder) begin(s durable.Step) {
	steps := []durable.Step{s}
	if s.Op == durable.RemoveAll {
		steps = nil
		for _, name := range r.live.beneath(s.Name) {
			steps = append(steps, durable.Step{Op: durable.Remove, Name: name})
		}
	}

	var note any
	if r.Note != nil {
		note = r.Note()
	}

	for i, step := range steps {
		op := Op{Step: step, Note: note}
		if i < len(steps)-1 {
			r.live.apply(op)
			r.ops = append(r.ops, op)
			continue
		}
		r.open = &op
	}
}

// finish takes in what the last step did: its hook was called before it.
func (r *Recorder) finish() {
	if r.open == nil {
		return
	}

	op := *r.open
	r.open = nil
	if op.Op == durable.Write || op.Op == durable.Append {
		info, err := r.root.Lstat(op.Name)
		if err == nil {
			op.Mode = info.Mode()
			op.Data, err = r.root.ReadFile(op.Name)
		}
		if err != nil {
			r.err = fmt.Errorf("record %s: %w", op.Step, err)
			return
		}
	}

	r.live.apply(op)
	r.ops = append(r.ops, op)
}

// Len is how many steps there are up to now.
func (r *Recorder) Len() int {
	r.finish()
	return len(r.ops)
}

// Recording ends with a Mark and returns what was recorded. It returns an error
// if a replay does not give the content of the tree.
func (r *Recorder) Recording() (Recording, error) {
	r.Mark("end")
	r.finish()

	if r.err != nil {
		return Recording{}, r.err
	}

	have, err := Read(r.root)
	if err != nil {
		return Recording{}, err
	}

	if have.Sum() != r.live.Sum() {
		return Recording{}, fmt.Errorf("the record leads to another tree:\n%s\nnot to\n"+
			"%s", r.live, have)
	}

	return Recording{r.base, slices.Clone(r.ops)}, nil
}

// Recording is where a tree began and what was done to it.
type Recording struct {
	Base *Disk
	Ops  []Op
}

// Replay calls at with the disk before each op, until at returns false. The
// disk is the next call's too: who changes it clones it.
func (r Recording) Replay(at func(k int, d *Disk) bool) {
	d := r.Base.Clone()
	for k, op := range r.Ops {
		if !at(k, d) {
			return
		}
		d.apply(op)
	}
}
