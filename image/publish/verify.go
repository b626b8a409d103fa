package publish

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/image/bundle"
	"github.com/loam-os/loam/image/meter"
	"github.com/loam-os/loam/image/repository"
	"github.com/loam-os/loam/partitions"
	"github.com/loam-os/loam/partitions/verity"
)

// Verify reads all files of the repository in dir and compares them with its
// signed metadata, which may have expired. It returns the files in the order in
// which they have to appear in a copy; what neither the metadata nor SHA256SUMS
// name is not among them. The error names all files that differ. report is told how
// far it is.
func Verify(ctx context.Context, dir string, report meter.Report) ([]File, error) {
	_, files, err := verify(ctx, dir, report)
	if err != nil {
		return nil, err
	}

	others, err := otherFiles(dir, files)
	if err != nil {
		return nil, damaged(dir, err)
	}

	files = append(files, others...)
	slices.SortStableFunc(files, func(a, b File) int { return cmp.Compare(a.turn(), b.turn()) })

	return files, nil
}

// verify compares what the signatures of the metadata vouch for.
func verify(
	ctx context.Context, dir string, report meter.Report,
) (repository.News, []File, error) {
	store, news, err := read(ctx, dir)
	if err != nil {
		return repository.News{}, nil, err
	}

	// Packs that a later program has published could not be found.
	known, all := len(news.Releases)+len(news.Kubernetes), len(targets(news))
	if known != all {
		return repository.News{}, nil, hint.With(
			fmt.Errorf("repository %s: this loamctl understands %d of its %d releases",
				dir, known, all),
			"use the loamctl that has published them")
	}

	var files []File
	var faults []error
	for _, r := range news.Releases {
		parts, err := releaseFiles(ctx, store, r)
		files = append(files, parts...)
		faults = append(faults, err)
	}
	for _, k := range news.Kubernetes {
		ix, err := k.Fetch(ctx, store)
		if err == nil {
			files = append(files, packOf(ix.Pack))
		}
		faults = append(faults, err)
	}

	part := meter.Begin(ctx, "verify", Size(files), report)
	for _, f := range files {
		faults = append(faults, f.checkAt(filepath.Join(dir, f.Name), part))
	}
	if err := ctx.Err(); err != nil {
		return repository.News{}, nil, err
	}

	sums, err := checkSums(dir, files)
	faults = append(faults, err)

	if err := errors.Join(faults...); err != nil {
		return repository.News{}, nil, damaged(dir, err)
	}

	return news, slices.Concat(files, store.read, sums), nil
}

// damaged says which repository has the faults.
func damaged(dir string, faults error) error {
	return hint.With(fault.With(fmt.Errorf("repository %s is damaged:\n%w", dir, faults),
		fault.RepositoryDamaged),
		"`loamctl publish` of an intact copy repairs it, "+
			"and so does `loamctl bundle` of the build")
}

// turn is when the file has to appear in a copy: what names other files comes
// after them.
func (f File) turn() int {
	switch name := f.Name; {
	case name == "metadata/timestamp.json":
		return 6
	case strings.HasSuffix(name, ".root.json"):
		return 5
	case name == sumsName || name == sumsSignature:
		return 4
	case strings.HasSuffix(name, ".snapshot.json"):
		return 3
	case strings.HasSuffix(name, ".targets.json"):
		return 2
	case strings.HasPrefix(name, "targets/"):
		return 1
	}
	return 0
}

// releaseFiles returns the files of a release that its index names.
func releaseFiles(
	ctx context.Context, store repository.Store, r repository.Release,
) ([]File, error) {
	ix, err := r.Fetch(ctx, store)
	if err != nil {
		return nil, err
	}

	parts, err := partsOf(ix)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.Index, err)
	}

	return parts.all(), nil
}

// releaseParts are the files of a release beside its index.
type releaseParts struct {
	pack, root, verity, uki File

	// signature has no name if the root hash is not signed.
	signature     File
	signatureText []byte
}

func packOf(p bundle.Pack) File { return File{p.Name, p.Size, p.SHA256} }

// partsOf names the files of a release. The names of partitions have their
// PARTUUID, for systemd-sysupdate.
func partsOf(ix bundle.Index) (releaseParts, error) {
	base, err := bundle.Base(ix.ImageID, ix.Version, ix.Arch)
	if err != nil {
		return releaseParts{}, err
	}

	// PARTUUIDs by the Discoverable Partitions Specification: first and second
	// half of the root hash.
	p := releaseParts{
		pack:   packOf(ix.Pack),
		root:   File{base + "_" + ix.RootHash[:32] + ".root", ix.Root.Size, ix.Root.SHA256},
		verity: File{base + "_" + ix.RootHash[32:] + ".verity", ix.Verity.Size, ix.Verity.SHA256},
		uki:    File{base + ".efi", ix.UKI.Size, ix.UKI.SHA256},
	}
	if ix.Signature == nil {
		return p, nil
	}

	hash, err := verity.ParseRootHash(ix.RootHash)
	if err != nil {
		return releaseParts{}, err
	}

	p.signatureText, err = ix.Signature.Encode()
	if err != nil {
		return releaseParts{}, err
	}

	id := partitions.SigUUID(hash)
	p.signature = describe(base+"_"+hex.EncodeToString(id[:])+".verity-sig", p.signatureText)

	return p, nil
}

// all returns the files.
func (p releaseParts) all() []File {
	files := []File{p.pack, p.root, p.verity, p.uki}
	if p.signature.Name != "" {
		files = append(files, p.signature)
	}
	return files
}

// sums are the lines of the files in SHA256SUMS: a file name and its digest.
// Packs are not in it: systemd-sysupdate does not read them.
func (p releaseParts) sums() map[string]string {
	sums := map[string]string{}
	for _, f := range p.all() {
		if f != p.pack {
			sums[f.Name] = f.SHA256
		}
	}
	return sums
}

// checkSums compares SHA256SUMS with the files of all releases, and returns it
// and its signature. Who has signed it, only the readers know.
func checkSums(dir string, files []File) ([]File, error) {
	have, err := readSums(dir)
	if err != nil {
		return nil, err
	}

	var faults []error
	for _, f := range files {
		if sum := have[f.Name]; sum != f.SHA256 && !strings.HasSuffix(f.Name, ".pack") {
			faults = append(faults, fmt.Errorf("%s: SHA-256 %s for %s; want %s",
				sumsName, cmp.Or(sum, "missing"), f.Name, f.SHA256))
		}
	}

	var found []File
	for _, name := range []string{sumsName, sumsSignature} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		switch {
		case err == nil:
			found = append(found, describe(name, text))
		case !errors.Is(err, fs.ErrNotExist):
			faults = append(faults, err)
		}
	}

	return found, errors.Join(faults...)
}

// otherFiles returns the files that only SHA256SUMS names: the files of a
// publication that was cut off, or an operator's own files.
func otherFiles(dir string, files []File) ([]File, error) {
	sums, err := readSums(dir)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		delete(sums, f.Name)
	}

	var others []File
	var faults []error
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		if !filepath.IsLocal(name) {
			faults = append(faults, fmt.Errorf("%s: %q is no name of a file", sumsName, name))
			continue
		}

		f := File{Name: name, SHA256: sums[name]}
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil {
			f.Size = info.Size()
		}

		others = append(others, f)
		faults = append(faults, f.checkAt(path, io.Discard))
	}

	return others, errors.Join(faults...)
}

// readSums reads SHA256SUMS; it has no lines if it is absent.
func readSums(dir string) (map[string]string, error) {
	text, err := os.ReadFile(filepath.Join(dir, sumsName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}

	sums := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if sum, name, ok := strings.Cut(strings.TrimSpace(line), "  "); ok {
			sums[name] = sum
		}
	}

	return sums, nil
}

// recorder is a Store that records which files were read.
type recorder struct {
	repository.Store
	read []File
}

// Get implements [repository.Store].
func (r *recorder) Get(ctx context.Context, name string, limit int64) ([]byte, error) {
	content, err := r.Store.Get(ctx, name, limit)
	if err == nil {
		r.read = append(r.read, describe(name, content))
	}
	return content, err
}
