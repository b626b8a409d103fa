package apply

import (
	"errors"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/generation"
)

// Verified is the result of Verify.
type Verified struct {
	// Checked counts the paths of all generations and of the node, Bytes the
	// content that was read.
	Checked int
	Bytes   int64
	Bad     []Fault
}

// Fault is a path that differs from its manifest.
type Fault struct {
	// Path is on the node, or in the directory of the generation if only an
	// older one has it.
	Path     string
	Problem  string
	Repaired bool
}

// verify compares the store and the node with the manifests.
func (f files) verify(
	current generation.Manifest,
	content map[string]config.Content,
	repair bool,
	report func(done, all int64),
) (Verified, error) {
	var v Verified
	names, err := f.store.List()
	if err != nil {
		return v, err
	}

	progress := reading{report: report, all: sizePlaced(current)}
	var stored []generation.Manifest
	for _, name := range names {
		m, err := f.store.Load(name)
		if err != nil {
			return v, err
		}
		stored = append(stored, m)
		progress.all += sizeStored(m)
	}

	for _, m := range stored {
		isCurrent := m.Name() == current.Name()
		if err := f.verifyStored(&v, m, isCurrent, content, repair, &progress); err != nil {
			return v, err
		}
	}

	return v, f.verifyPlaced(&v, current, repair, &progress)
}

// reading is how much of the content was read.
type reading struct {
	report    func(done, all int64) // nil for nobody
	done, all int64
}

// read counts bytes that were read.
func (r *reading) read(bytes int64) {
	r.done += bytes
	if r.report != nil {
		r.report(r.done, r.all)
	}
}

// sizeStored returns the size of the content of m, which is in the store.
func sizeStored(m generation.Manifest) (size int64) {
	for _, entry := range m.Entries {
		if entry.Kind == generation.KindFile {
			size += entry.Size
		}
	}
	return size
}

// sizePlaced returns the size of the files of m that are copies on the node.
func sizePlaced(m generation.Manifest) (size int64) {
	if m.Name() == "" {
		return 0
	}
	for _, p := range generation.Place(m) {
		if p.Kind == generation.PlaceCopy {
			size += p.Size
		}
	}
	return size
}

// verifyStored checks the content and links of one generation in the store.
func (f files) verifyStored(
	v *Verified,
	m generation.Manifest,
	current bool,
	content map[string]config.Content,
	repair bool,
	progress *reading,
) error {
	for _, entry := range m.Entries {
		if entry.Kind == generation.KindFile {
			v.Checked++
			v.Bytes += entry.Size
		}
	}

	damaged := f.store.Examine(m, progress.read)
	if len(damaged) == 0 {
		return nil
	}

	var repairErr error
	if repair {
		repairErr = f.store.Repair(m, f.sources(damaged, content))
	}

	left := f.store.Damaged(m)
	for _, entry := range damaged {
		fault := Fault{
			Path:     entry.Path,
			Problem:  "its content in the store was damaged",
			Repaired: repair && !slices.Contains(left, entry),
		}
		if !current {
			fault.Path = path.Join("/generations", m.Name(), entry.Path)
		}
		v.Bad = append(v.Bad, fault)
	}

	if errors.Is(repairErr, fs.ErrNotExist) {
		return nil // The content is lost, as the faults say.
	}

	return repairErr
}

// sources returns content, and copies of damaged files from elsewhere on the
// node.
func (f files) sources(
	damaged []generation.Entry, content map[string]config.Content,
) map[string]config.Content {
	sources := map[string]config.Content{}
	maps.Copy(sources, content)
	for _, entry := range damaged {
		if copied, ok := f.otherCopy(entry); ok {
			sources[entry.Digest] = copied
		}
	}
	return sources
}

// otherCopy returns the content of a damaged file if a real file on the node
// has it.
func (f files) otherCopy(entry generation.Entry) (config.Content, bool) {
	for _, p := range generation.Place(generation.Manifest{Entries: []generation.Entry{entry}}) {
		if p.Kind == generation.PlaceCopy && generation.Placed(f.node.FS(), p) {
			open := func() (io.ReadCloser, error) { return f.node.FS().Open(entry.Path[1:]) }
			return config.Stream(entry.Digest, entry.Size, open), true
		}
	}
	return config.Content{}, false
}

// verifyPlaced checks the managed paths of the node.
func (f files) verifyPlaced(
	v *Verified, m generation.Manifest, repair bool, progress *reading,
) error {
	if m.Name() == "" {
		return nil
	}

	var errs []error
	for _, p := range generation.Place(m) {
		v.Checked++
		placed := generation.Placed(f.node.FS(), p)
		if p.Kind == generation.PlaceCopy {
			v.Bytes += p.Size
			progress.read(p.Size)
		}
		if placed {
			continue
		}

		fault := Fault{Path: p.Path, Problem: "something else changed or removed it"}
		if repair {
			_, err := generation.Put(f.node, p, f.store.Reader)
			errs = append(errs, err)
			fault.Repaired = err == nil
		}

		v.Bad = append(v.Bad, fault)
	}

	return errors.Join(errs...)
}
