package repository

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/theupdateframework/go-tuf/v2/metadata"

	"github.com/loam-os/loam/image/bundle"
	"github.com/loam-os/loam/partitions"
	"github.com/loam-os/loam/partitions/verity"
)

// Bundle is what Publish publishes: the index, and the files that it describes.
type Bundle struct {
	Index                   bundle.Index
	Pack, Root, Verity, UKI string

	// SignSums makes the detached OpenPGP signature of SHA256SUMS; nil for
	// none.
	SignSums func(text []byte) ([]byte, error)
}

// Write makes the file Pack of the other files, and Index: about is what there
// is to know of the system besides its content.
func (b *Bundle) Write(about bundle.Sources) (err error) {
	for to, name := range map[*bundle.Source]string{
		&about.Root:   b.Root,
		&about.Verity: b.Verity,
		&about.UKI:    b.UKI,
	} {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()

		info, err := f.Stat()
		if err != nil {
			return err
		}

		*to = bundle.Source{ReaderAt: f, Size: info.Size()}
	}

	pack, err := os.OpenFile(b.Pack, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}

	b.Index, err = bundle.Write(pack, about)
	return errors.Join(err, pack.Sync(), pack.Close())
}

// Publish adds a release to the repository in dir. Readers see either all of it
// or nothing. What is published already is no error, but other content under
// the same name is: nodes remember a version that failed, and files must not
// change while they are fetched.
func Publish(dir string, keys Keys, b Bundle, e Expiries, now time.Time) (Release, error) {
	unlock, err := Lock(dir)
	if err != nil {
		return Release{}, err
	}
	defer unlock()

	st, err := readState(dir)
	if err != nil {
		return Release{}, err
	}

	text, err := b.Index.Encode()
	if err != nil {
		return Release{}, err
	}

	r, target, err := describe(b.Index, text)
	if err != nil {
		return Release{}, err
	}

	if have, ok := st.targets.Signed.Targets[r.Index]; ok {
		if have.Hashes["sha256"].String() == r.IndexSHA256 {
			return r, nil
		}
		return Release{}, fmt.Errorf(
			"repository %s: %s is published already, with other content\nhint: "+
				"a new release has a new IMAGE_VERSION; each profile has its own repository",
			dir,
			strings.TrimSuffix(r.Index, indexSuffix),
		)
	}

	if err := place(dir, b, r, text); err != nil {
		return Release{}, fmt.Errorf("publish %s: %w", r.Index, err)
	}

	st.targets.Signed.Targets[r.Index] = target
	s := signer{
		dir:      dir,
		keys:     keys,
		expiries: e,
		now:      now,
	}
	if err := s.commit(st, func() error { return nil }); err != nil {
		return Release{}, fmt.Errorf("publish %s: %w", r.Index, err)
	}

	return r, nil
}

// Refresh signs a new timestamp, so that nodes know the repository is not
// frozen.
func Refresh(dir string, keys Keys, e Expiries, now time.Time) error {
	unlock, err := Lock(dir)
	if err != nil {
		return err
	}
	defer unlock()

	st, err := readState(dir)
	if err != nil {
		return err
	}
	if err := (signer{dir: dir, keys: keys, expiries: e, now: now}).stamp(st); err != nil {
		return fmt.Errorf("repository %s: %w", dir, err)
	}

	return nil
}

// describe makes the entry of targets.json, and reads it as a node will.
func describe(ix bundle.Index, text []byte) (Release, *metadata.TargetFiles, error) {
	base, err := bundle.Base(ix.ImageID, ix.Version, ix.Arch)
	if err != nil {
		return Release{}, nil, err
	}

	about, err := json.Marshal(custom{
		ImageID: ix.ImageID,
		Version: ix.Version,
		Arch:    ix.Arch,
		Profile: ix.Profile,
		Epoch:   ix.Epoch,
	})
	if err != nil {
		return Release{}, nil, err
	}

	sum := sha256.Sum256(text)
	target := &metadata.TargetFiles{
		Length: int64(len(text)),
		Hashes: metadata.Hashes{"sha256": sum[:]},
		Custom: (*json.RawMessage)(&about),
	}

	r, err := release(base+indexSuffix, target)
	return r, target, err
}

// place puts the files of a release where the metadata will say they are.
func place(dir string, b Bundle, r Release, index []byte) error {
	base := strings.TrimSuffix(r.Index, indexSuffix)

	// PARTUUIDs by the Discoverable Partitions Specification: first and second
	// half of the root hash.
	root := base + "_" + b.Index.RootHash[:32] + ".root"
	verity := base + "_" + b.Index.RootHash[32:] + ".verity"
	sums := map[string]string{
		base + ".efi": b.Index.UKI.SHA256,
		root:          b.Index.Root.SHA256,
		verity:        b.Index.Verity.SHA256,
	}
	if err := placeSignature(dir, base, b.Index, sums); err != nil {
		return err
	}

	for _, f := range []struct {
		name, from string
		size       int64
	}{
		{b.Index.Pack.Name, b.Pack, b.Index.Pack.Size},
		{root, b.Root, b.Index.Root.Size}, {verity, b.Verity, b.Index.Verity.Size},
		{base + ".efi", b.UKI, b.Index.UKI.Size},
	} {
		if info, err := os.Stat(f.from); err != nil || info.Size() != f.size {
			return errors.Join(err, fmt.Errorf("%s: not the %d bytes of the index", f.from, f.size))
		}
		if err := linkFile(filepath.Join(dir, f.name), f.from); err != nil {
			return err
		}
	}

	if err := b.addSums(dir, sums); err != nil {
		return err
	}

	return writeFile(filepath.Join(dir, r.stored()), index, 0o644)
}

// placeSignature makes of the signature of the root hash, if there is one, the
// file that fills its partition.
func placeSignature(dir, base string, ix bundle.Index, sums map[string]string) error {
	if ix.Signature == nil {
		return nil
	}

	content, err := ix.Signature.Encode()
	if err != nil {
		return err
	}

	hash, err := verity.ParseRootHash(ix.RootHash)
	if err != nil {
		return err
	}

	id := partitions.SigUUID(hash)
	name := base + "_" + hex.EncodeToString(id[:]) + ".verity-sig"
	sums[name] = fmt.Sprintf("%x", sha256.Sum256(content))

	return writeFile(filepath.Join(dir, name), content, 0o644)
}

// sumsName is the list of digests that systemd-sysupdate reads, sumsSignature
// what it verifies that by.
const sumsName, sumsSignature = "SHA256SUMS", "SHA256SUMS.gpg"

// addSums adds files to the SHA256SUMS of a directory, as sha256sum(1) writes
// it, sorted by name. A file that is in it has the new sum.
func (b Bundle) addSums(dir string, sums map[string]string) error {
	old, err := os.ReadFile(filepath.Join(dir, sumsName))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}

	for line := range strings.Lines(string(old)) {
		sum, name, ok := strings.Cut(strings.TrimSpace(line), "  ")
		if _, again := sums[name]; ok && !again {
			sums[name] = sum
		}
	}

	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		fmt.Fprintf(&text, "%s  %s\n", sums[name], name)
	}

	if b.SignSums == nil {
		if _, err := os.Stat(filepath.Join(dir, sumsSignature)); err == nil {
			return fmt.Errorf("%s is signed, and would not be any longer\n"+
				"hint: --sums-key signs it again", sumsName)
		}
		return writeFile(filepath.Join(dir, sumsName), []byte(text.String()), 0o644)
	}

	signature, err := b.SignSums([]byte(text.String()))
	if err != nil {
		return fmt.Errorf("%s: %w", sumsName, err)
	}

	// Between the two, who verifies it takes nothing, and a publication that
	// was cut off there is done again.
	return errors.Join(writeFile(filepath.Join(dir, sumsName), []byte(text.String()), 0o644),
		writeFile(filepath.Join(dir, sumsSignature), signature, 0o644))
}
