package repository

import (
	"errors"
	"fmt"

	"github.com/theupdateframework/go-tuf/v2/metadata"

	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

// Errors of the metadata of a repository. A retry on the same server does not
// help at once.
var (
	// ErrExpired: the signatures of the metadata have expired. A frozen
	// repository looks like this.
	ErrExpired = fault.With(errors.New("expired"), fault.RepositoryExpired)
	// ErrRollback: older than what this node has seen.
	ErrRollback = fault.With(errors.New("older than what was seen before"), fault.RepositoryOld)
	// ErrUnsigned: too few of the signatures that root.json asks for.
	ErrUnsigned = fault.With(errors.New("not signed by enough trusted keys"),
		fault.RepositoryUnsigned)
	// ErrMixed: a file differs from the file that the signed metadata names.
	ErrMixed = fault.With(errors.New("not the file that the signed metadata name"),
		fault.RepositoryDamaged)
	// ErrInvalid: a file lacks required content.
	ErrInvalid = fault.With(errors.New("not valid"), fault.NotARepository)
	// ErrNotKept: the node cannot read or write what it has seen.
	ErrNotKept = errors.New("trusted metadata")
)

func hints() map[error]string {
	return map[error]string{
		ErrExpired: "sign the repository again (at least its timestamp), " +
			"or set this machine's clock",
		ErrRollback: "this is an old copy of the repository, or an attacker replays one",
		ErrUnsigned: "is this the repository whose root.json the node trusts?",
		ErrMixed:    "the copy of the repository is not whole; copy all of it, timestamp.json last",
		ErrInvalid:  "was this repository written by loamctl?",
		ErrTooLarge: "was this repository written by loamctl?",
		ErrNotFound: "is this the directory of a repository, with metadata/ in it?",
	}
}

// translate gives an error of go-tuf the sentinel and the hint of its kind.
func translate(file string, err error) error {
	for _, kind := range []struct{ theirs, ours error }{
		{&metadata.ErrExpiredMetadata{}, ErrExpired},
		{&metadata.ErrUnsignedMetadata{}, ErrUnsigned},
		{&metadata.ErrBadVersionNumber{}, ErrRollback},
		{&metadata.ErrLengthOrHashMismatch{}, ErrMixed},
	} {
		if errors.Is(err, kind.theirs) {
			return explain(file, fmt.Errorf("%w (%v)", kind.ours, err))
		}
	}
	return explain(file, fmt.Errorf("%w (%v)", ErrInvalid, err))
}

// explain adds the file, and the hint of what err is.
func explain(file string, err error) error {
	for kind, text := range hints() {
		if errors.Is(err, kind) {
			return hint.With(fmt.Errorf("update metadata: %s: %w", file, err), "%s", text)
		}
	}
	return fmt.Errorf("update metadata: %s: %w", file, err)
}
