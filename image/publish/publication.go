package publish

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"github.com/theupdateframework/go-tuf/v2/metadata"

	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/image/meter"
	"github.com/loam-os/loam/image/repository"
	"github.com/loam-os/loam/image/update"
)

// publication is what one commit adds to a repository: an index as TUF's
// target, and the files that the index names.
type publication struct {
	repository.Target
	entry *metadata.TargetFiles
	waves []repository.Wave
	index []byte
	files []content

	// sums are lines for SHA256SUMS; nil for a target that systemd-sysupdate
	// does not read. signSums makes the detached signature, nil for none.
	sums     map[string]string
	signSums func(text []byte) ([]byte, error)

	// refuse adds a hint to the error of other content under the same name.
	refuse func(err error) error
}

// content is a file and where its content is: in another file, or in text.
type content struct {
	File
	from string
	text []byte
}

// releasePublication makes the publication of a release.
func releasePublication(b update.Bundle) (publication, repository.Release, error) {
	text, err := b.Index.Encode()
	if err != nil {
		return publication{}, repository.Release{}, err
	}
	r, entry, err := repository.Describe(b.Index, text, b.Waves)
	if err != nil {
		return publication{}, repository.Release{}, err
	}
	parts, err := partsOf(b.Index)
	if err != nil {
		return publication{}, repository.Release{}, err
	}

	p := publication{
		Target: r.Target,
		entry:  entry,
		waves:  b.Waves,
		index:  text,
		files: []content{
			{File: parts.pack, from: b.Pack},
			{File: parts.root, from: b.Root},
			{File: parts.verity, from: b.Verity},
			{File: parts.uki, from: b.UKI},
		},
		sums:     parts.sums(),
		signSums: b.SignSums,
		refuse: func(err error) error {
			return hint.With(err,
				"a new release has a new IMAGE_VERSION; each profile has its own repository")
		},
	}
	if parts.signature.Name != "" {
		p.files = append(p.files, content{File: parts.signature, text: parts.signatureText})
	}
	return p, r, nil
}

// publish adds p to the repository of s, or repairs it if it is there.
func (p publication) publish(ctx context.Context, s signer, report meter.Report) error {
	unlock, err := Lock(s.dir)
	if err != nil {
		return err
	}
	defer unlock()

	_, news, err := read(ctx, s.dir)
	if err != nil {
		return err
	}

	if have, ok := targets(news)[p.Index]; ok {
		if have.Hashes["sha256"].String() == p.IndexSHA256 {
			if err := p.sameWaves(news.Releases); err != nil {
				return err
			}
			return p.repair(ctx, s.dir, report)
		}
		return p.refuse(
			fault.With(fmt.Errorf("repository %s: %s is published already, with other content",
				s.dir, p.Base()), fault.FileExists))
	}

	st, err := readState(ctx, s.dir, report)
	if err != nil {
		return err
	}
	if err := p.place(ctx, s.dir, report); err != nil {
		return fmt.Errorf("publish %s: %w", p.Index, err)
	}

	st.targets.Signed.Targets[p.Index] = p.entry
	if err := s.commit(st, func() error { return nil }); err != nil {
		return fmt.Errorf("publish %s: %w", p.Index, err)
	}
	return nil
}

// sameWaves returns an error if p has waves, and is published already with others.
func (p publication) sameWaves(published []repository.Release) error {
	for _, r := range published {
		isSame := slices.EqualFunc(r.Waves, p.waves, func(a, b repository.Wave) bool {
			return a.After.Equal(b.After) && a.Share == b.Share
		})
		if r.Index == p.Index && len(p.waves) > 0 && !isSame {
			return hint.With(fault.With(fmt.Errorf("%s is published already, with other waves",
				p.Base()), fault.FileExists), "`loamctl waves` changes them")
		}
	}
	return nil
}

// size is how many bytes the files have.
func (p publication) size() int64 {
	all := int64(0)
	for _, f := range p.files {
		all += f.Size
	}
	return all
}

// repair places the files again if one of them is damaged.
func (p publication) repair(ctx context.Context, dir string, report meter.Report) error {
	sums, err := readSums(dir)
	if err != nil {
		return err
	}

	part := meter.Begin(ctx, "compare", p.size(), report)
	intact := describe(p.Stored(), p.index).In(dir, io.Discard)
	for _, f := range p.files {
		intact = intact && f.In(dir, part)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	for name, sum := range p.sums {
		intact = intact && sums[name] == sum
	}
	if intact {
		return nil
	}

	if err := p.place(ctx, dir, report); err != nil {
		return fmt.Errorf("repair %s: %w", p.Index, err)
	}
	return nil
}

// place puts the files where the metadata will say they are, and verifies them
// there.
func (p publication) place(ctx context.Context, dir string, report meter.Report) error {
	part := meter.Begin(ctx, "publish", p.size(), report)
	for _, f := range p.files {
		if err := f.place(dir, part); err != nil {
			return err
		}
	}

	if p.sums != nil {
		if err := addSums(dir, p.sums, p.signSums); err != nil {
			return err
		}
	}
	return writeFile(filepath.Join(dir, p.Stored()), p.index, 0o644)
}

// place puts the file into the repository in dir. count gets as many bytes as
// the file has.
func (c content) place(dir string, count *meter.Part) error {
	if c.from != "" {
		return linkFile(c.File, dir, c.from, count)
	}
	return errors.Join(
		writeFile(filepath.Join(dir, c.Name), c.text, 0o644),
		count.Add(c.Size),
	)
}
