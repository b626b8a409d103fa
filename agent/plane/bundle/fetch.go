package bundle

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/upgrade/fill"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/hint/redact"
	index "github.com/loam-os/loam/image/bundle"
	"github.com/loam-os/loam/image/repository"
)

// Source says where bundles are published: where releases of the system are.
type Source struct {
	// Ref is a directory, such as a USB drive's, or a URL (repository.Open).
	Ref string

	// Root is the root.json that is trusted first, and Keep has the metadata that
	// were verified.
	Root []byte
	Keep repository.Records

	// Mirrors are asked for chunks before Ref.
	Mirrors []string

	// Built is a time after the running system was built.
	Built time.Time
}

// Request is a bundle to fetch.
type Request struct {
	Version, Arch string
	Now           time.Time

	// Progress is called with the bytes of the bundle that are there, and with the
	// bytes that it has; nil if none.
	Progress func(done, all int64)
	Log      *zap.Logger
}

// spareRoom is what a bundle leaves free on the state partition.
const spareRoom = 64 << 20

// Fetch returns the bundle of a version, and fetches it if the node does not have
// it. It asks no repository for a bundle that is there. A fetch that was cut off
// goes on where it was, and files that another version has in common are copied.
func (s Store) Fetch(ctx context.Context, from Source, r Request) (Bundle, error) {
	b, err := s.Open(r.Version)
	if err == nil && b.Version == r.Version && b.Arch == r.Arch {
		return b, nil
	}

	b, err = s.fetch(ctx, from, r)
	if fault.Of(err) == fault.DiskFull {
		err = hint.With(fault.With(err, fault.StateFull),
			"free room on the state partition, `df -h /var` and `df -i /var`; the node goes on by itself")
	}
	return b, err
}

// fetch fetches a bundle that the node does not have.
func (s Store) fetch(ctx context.Context, from Source, r Request) (Bundle, error) {
	ix, err := from.find(ctx, r)
	if err != nil {
		return Bundle{}, err
	}
	if err := s.dir.MkdirAll(Directory[1:]); err != nil {
		return Bundle{}, err
	}
	if err := s.reopen(r.Version); err != nil {
		return Bundle{}, err
	}
	if err := s.checkRoom(ix); err != nil {
		return Bundle{}, err
	}

	if err := s.fill(ctx, from, r, ix); err != nil {
		return Bundle{}, from.named(ix, err)
	}
	if err := s.finish(ix); err != nil {
		return Bundle{}, err
	}
	return s.Open(r.Version)
}

// find returns the index of the bundle.
func (f Source) find(ctx context.Context, r Request) (index.Kubernetes, error) {
	store, err := repository.Open(f.Ref)
	if err != nil {
		return index.Kubernetes{}, err
	}
	news, err := repository.Update(ctx, store, f.Keep, f.Root,
		repository.Clock{Now: r.Now, Built: f.Built})
	if err != nil {
		return index.Kubernetes{}, fill.Unreached(err)
	}

	at := slices.IndexFunc(news.Kubernetes, func(k repository.Kubernetes) bool {
		return k.Version == r.Version && k.Arch == r.Arch
	})
	if at < 0 {
		return index.Kubernetes{}, f.absent(r, news.Kubernetes)
	}
	ix, err := news.Kubernetes[at].Fetch(ctx, store)
	return ix, fill.Unreached(err)
}

// absent is the error of a bundle that the repository does not have.
func (f Source) absent(r Request, all []repository.Kubernetes) error {
	var archs, versions []string
	for _, k := range all {
		if k.Version == r.Version {
			archs = append(archs, k.Arch)
		}
		if k.Arch == r.Arch {
			versions = append(versions, k.Version)
		}
	}

	err := fmt.Errorf("version %s of Kubernetes for %s: not in the repository %s",
		r.Version, r.Arch, redact.URLs(f.Ref))
	if len(archs) > 0 {
		return hint.With(fault.With(err, fault.WrongArchitecture),
			"it has the version for %s; `loamctl kubernetes bundle %s --arch %s` publishes it",
			strings.Join(archs, " and "), r.Version, r.Arch)
	}
	err = fault.With(err, fault.NoSuchRelease)
	if len(versions) == 0 {
		return hint.With(err, "it has no Kubernetes for %s; `loamctl kubernetes bundle` publishes it",
			r.Arch)
	}
	return hint.With(err, "it has %s; `loamctl kubernetes bundle` publishes others",
		strings.Join(versions, ", "))
}

// named adds to an error of a fetch where the bundle comes from.
func (f Source) named(ix index.Kubernetes, err error) error {
	switch fault.Of(err) {
	case fault.RepositoryDamaged:
		err = fmt.Errorf("fetch %s from %s: %w", ix.Pack.Name, redact.URLs(f.Ref), err)
		return hint.With(err, "`loamctl publish` of an intact copy repairs it; "+
			"what was fetched before is kept")
	case fault.RepositoryUnreachable:
		return fmt.Errorf("fetch %s from %s: %w", ix.Pack.Name, redact.URLs(f.Ref), err)
	}
	return fmt.Errorf("fetch %s: %w", ix.Pack.Name, err)
}

// reopen makes a bundle that cannot be opened an unfinished one: a fetch compares
// its files, and fetches only what is damaged.
func (s Store) reopen(version string) error {
	_, err := s.dir.Root().Lstat(place(version))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return errors.Join(err, s.retract(version))
}

// checkRoom refuses a bundle that does not fit.
func (s Store) checkRoom(ix index.Kubernetes) error {
	size := int64(spareRoom)
	for _, f := range ix.Files {
		size += f.Size
		info, err := s.dir.Root().Lstat(path.Join(unfinished(ix.Version), f.Name))
		if err == nil {
			size -= min(info.Size(), f.Size)
		}
	}

	free, err := s.room()
	if err != nil {
		return fmt.Errorf("how much room the state partition has: %w", err)
	}
	if free < size {
		return hint.With(fault.With(
			fmt.Errorf("version %s of Kubernetes: the state partition has %d MiB free, this takes %d",
				ix.Version, free>>20, size>>20), fault.StateFull),
			"see what takes the room: du -x /var")
	}
	return nil
}

// published is where the pack of a bundle is. It implements [fill.Release].
type published struct{ ref, pack string }

// Pack implements [fill.Release].
func (p published) Pack() (ref, name string, err error) { return p.ref, p.pack, nil }

// fill fetches the files into the directory of the unfinished bundle.
func (s Store) fill(ctx context.Context, from Source, r Request, ix index.Kubernetes) error {
	f := filler{
		store:   s,
		dir:     unfinished(ix.Version),
		sources: fill.Open(published{from.Ref, ix.Pack.Name}, from.Mirrors, r.Log),
		others:  s.others(ix.Version),
		report:  r.Progress,
	}
	for _, file := range ix.Files {
		f.all += file.Size
	}
	if f.report != nil {
		f.report(0, f.all)
	}

	for _, file := range ix.Files {
		if err := f.file(ctx, file); err != nil {
			return fmt.Errorf("%s: %w", file.Name, err)
		}
	}
	return nil
}

// others returns the other bundles of the node.
func (s Store) others(version string) []Bundle {
	var others []Bundle
	versions, _ := s.Versions() // What cannot be listed is fetched.
	for _, v := range versions {
		if b, err := s.Open(v); err == nil && v != version {
			others = append(others, b)
		}
	}
	return others
}

// filler fetches the files of a bundle.
type filler struct {
	store   Store
	dir     string
	sources fill.Sources
	others  []Bundle

	// done bytes of all are there.
	done, all int64
	report    func(done, all int64)
}

// file fetches one file, unless it is there, and reads it again.
func (f *filler) file(ctx context.Context, file index.File) (err error) {
	name := path.Join(f.dir, file.Name)
	if err := f.store.dir.MkdirAll(path.Dir(name)); err != nil {
		return err
	}
	mode := fs.FileMode(0o644)
	if file.Executable() {
		mode = 0o755
	}
	if info, err := f.store.dir.Root().Lstat(name); err == nil && !info.Mode().IsRegular() {
		if err := f.store.dir.RemoveAll(name); err != nil {
			return err
		}
	}

	target, err := f.store.dir.Partial(name, file.Size, mode)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, target.Close()) }()

	if err := f.run(ctx, file, target); err != nil {
		return err
	}
	if err := fill.Verify(target, file.Part); err != nil {
		return err
	}
	f.done += file.Size
	return errors.Join(target.Sync(), f.store.dir.SyncDir(path.Dir(name)))
}

// run fills a file, also from files of other bundles.
func (f *filler) run(ctx context.Context, file index.File, target *durable.Partial) error {
	job := fill.Job{
		Target:  target,
		Part:    file.Part,
		Sources: f.sources,
	}
	if f.report != nil {
		job.Progress = func(s fill.Stats) { f.report(f.done+s.Kept+s.Written, f.all) }
	}

	for _, other := range f.others {
		local, closer, ok := other.local(file)
		if !ok {
			continue
		}
		defer closer()
		job.Locals = append(job.Locals, local)
	}
	return job.Run(ctx)
}

// local returns the content of the file that has most in common with another: the
// same, or the one with its name.
func (b Bundle) local(file index.File) (l fill.Local, closer func(), ok bool) {
	at := slices.IndexFunc(b.Files, func(f File) bool { return f.SHA256 == file.SHA256 })
	if at < 0 {
		at = slices.IndexFunc(b.Files, func(f File) bool { return f.Name == file.Name })
	}
	if at < 0 {
		return l, nil, false
	}

	f, err := os.Open(path.Join(b.Dir, b.Files[at].Name))
	if err != nil { // Then it is fetched.
		return l, nil, false
	}
	l, err = fill.Locate(f, b.Files[at].Size, file.ChunkLen())
	if err != nil {
		f.Close()
		return l, nil, false
	}
	return l, func() { f.Close() }, true
}

// finish describes the files, makes them durable and gives the directory the name
// of the version.
func (s Store) finish(ix index.Kubernetes) error {
	from := unfinished(ix.Version)
	d := Description{Format: Format, Version: ix.Version, Arch: ix.Arch}
	for _, f := range ix.Files {
		d.Files = append(d.Files, File{Name: f.Name, Size: f.Size, SHA256: f.SHA256})
	}
	if err := s.dir.WriteJSON(path.Join(from, descriptionFile), d, 0o644); err != nil {
		return err
	}

	if _, err := Open(s.path(from)); err != nil {
		return err
	}
	return s.dir.Move(from, place(ix.Version))
}
