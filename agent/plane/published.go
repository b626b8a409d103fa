package plane

import (
	"errors"
	"fmt"
	"io/fs"
	"reflect"

	"github.com/loam-os/loam/agent/document"
)

// The ConfigMap with the record of the cluster, and its field in it.
const (
	RecordNamespace = "kube-system"
	RecordName      = "loam-cluster"
	RecordField     = "record.json"
)

// appliedFile is the record that the node last ran without a trial.
const appliedFile = StateDirectory + "/applied.json"

// publishedFile is the record that the node and the ConfigMap last agreed on.
const publishedFile = StateDirectory + "/published.json"

// pendingFile is the record that they are about to agree on.
const pendingFile = StateDirectory + "/pending.json"

// Step is what makes the record of a node and the ConfigMap agree.
type Step string

// Keep means that they do. With Publish the ConfigMap becomes the node's record,
// and with Follow it is the other way round.
const (
	Keep    Step = "keep"
	Publish Step = "publish"
	Follow  Step = "follow"
)

// Agree returns what makes own, the record of the node, and published agree, which
// is nil if there is no ConfigMap. last is what they last agreed on, nil before
// the first time.
//
// Whichever has changed since then counts. If both have, it is the ConfigMap,
// which all nodes of the cluster see.
func Agree(last *Record, own Record, published *Record) Step {
	switch {
	case published == nil:
		return Publish
	case is(published, own):
		return Keep
	case is(last, *published):
		return Publish
	default:
		return Follow
	}
}

// Base returns what the node and the ConfigMap last agreed on, for [Agree]. last is
// what the node has kept of that, and pending what they were about to agree on: a
// power cut may have left both of them with pending, before the node could keep
// it, and one of the two may have changed since.
func Base(last, pending *Record, own Record, published *Record) *Record {
	if published == nil {
		return last
	}
	switch {
	case is(pending, *published) && !is(last, own):
		return published
	case is(pending, own) && !is(last, *published):
		return &own
	}
	return last
}

func is(a *Record, b Record) bool { return a != nil && reflect.DeepEqual(*a, b) }

// Applied returns the record that the node last ran without a trial, nil if there is
// none that can be read.
func (s Store) Applied() (*Record, error) { return s.read(appliedFile) }

// WriteApplied replaces the record that the node runs, durably.
func (s Store) WriteApplied(r Record) error { return s.write(appliedFile, r) }

// Published returns the record that the node and the ConfigMap last agreed on, nil
// if there is none that can be read: without it the ConfigMap counts.
func (s Store) Published() (*Record, error) { return s.read(publishedFile) }

// Pending returns the record that the node and the ConfigMap were about to agree
// on, nil if there is none that can be read.
func (s Store) Pending() (*Record, error) { return s.read(pendingFile) }

func (s Store) read(file string) (*Record, error) {
	text, err := s.dir.Root().ReadFile(file[1:])
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}

	if r, err := DecodeKept(file, text); err == nil {
		return &r, nil
	}
	return nil, nil
}

// WritePending replaces the record that the node and the ConfigMap are about to
// agree on, durably. It must be called before one of them becomes the other.
func (s Store) WritePending(r Record) error { return s.write(pendingFile, r) }

// WritePublished replaces the record that the node and the ConfigMap last agreed
// on, durably.
func (s Store) WritePublished(r Record) error { return s.write(publishedFile, r) }

// PublishedName is the content of the ConfigMap in errors.
var PublishedName = fmt.Sprintf("ConfigMap %s/%s, %s", RecordNamespace, RecordName, RecordField)

// DecodePublished is [DecodeKept] for the content of the ConfigMap. unknown are the
// fields that are left out: a later release has them, or they are misspelt.
func DecodePublished(text string) (r Record, unknown document.Errors, err error) {
	r, err = Decode(PublishedName, []byte(text))
	unknown, refusal := document.Lenient(err)
	if refusal != nil {
		return Record{}, nil, refusal
	}
	return r, unknown, nil
}
