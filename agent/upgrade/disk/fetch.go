package disk

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/loam-os/loam/agent/upgrade/fill"
	"github.com/loam-os/loam/image/bundle"
	"github.com/loam-os/loam/partitions/device"
	"github.com/loam-os/loam/partitions/verity"
)

// Progress is how far the fetch of a release is.
type Progress struct {
	// Part is "root", "verity" or "uki".
	Part string
	// Size is the part's, in bytes.
	Size int64
	fill.Stats
}

// Fetcher fetches the parts of a release: from this machine first, then from
// the sources. Package fill does the work.
type Fetcher struct {
	Sources fill.Sources
	// Progress is told how far a part is; nil if none.
	Progress func(Progress)
}

// part fetches one part.
func (f Fetcher) part(ctx context.Context, name string, job fill.Job) error {
	job.Sources = f.Sources
	if f.Progress != nil {
		job.Progress = func(done fill.Stats) {
			f.Progress(Progress{Part: name, Size: job.Part.Size, Stats: done})
		}
	}
	if err := job.Run(ctx); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// system is what a slot has to hold.
type system struct {
	root, tree device.Device
	hash       [32]byte
	index      bundle.Index
}

// errNotVerified says that a slot does not hold what its root hash says.
var errNotVerified = errors.New("the slot does not verify")

// system fetches both parts of a slot and verifies them. had is what the slot is
// known to hold, empty if that is not known.
func (f Fetcher) system(
	ctx context.Context, s system, had fill.Contents, locals []fill.Local,
) error {
	root := fill.Job{
		Target: s.root,
		Part:   s.index.Root,
		Known:  had.Root,
		Locals: locals,
	}
	if err := f.part(ctx, "root", root); err != nil {
		return err
	}

	tree := fill.Job{
		Target: s.tree,
		Part:   s.index.Verity,
		Known:  had.Verity,
		Locals: locals,
	}
	if err := f.part(ctx, "verity", tree); err != nil {
		return err
	}

	err := errors.Join(fill.Verify(s.tree, s.index.Verity), verity.Verify(s.root, s.tree, s.hash))
	if err != nil {
		return fmt.Errorf("%w: %w", errNotVerified, err)
	}

	return nil
}

// UKI assembles the UKI of an index in a file of the state partition, so that it
// can resume after a cut, and then writes it to the ESP, where no entry names it
// yet. Chunks that the UKIs of entries have are not fetched.
func (f Fetcher) UKI(
	ctx context.Context, file device.Device, to *ESP, entries []Entry, idx bundle.Index,
) error {
	if err := to.Reclaim(); err != nil { // An earlier try may have left clusters.
		return err
	}

	job := fill.Job{
		Target: file,
		Part:   idx.UKI,
		Locals: to.locals(entries),
	}
	if err := f.part(ctx, "uki", job); err != nil {
		return err
	}

	uki := io.NewSectionReader(file, 0, idx.UKI.Size)
	if err := errors.Join(fill.Verify(file, idx.UKI), checkUKI(uki, idx)); err != nil {
		return err
	}

	return to.stage(uki, idx.UKI.Size)
}
