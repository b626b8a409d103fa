package plane

import (
	"fmt"
	"reflect"

	"github.com/loam-os/loam/agent/document"
)

// The ConfigMap with the record of the cluster, and its field in it.
const (
	RecordNamespace = "kube-system"
	RecordName      = "loam-cluster"
	RecordField     = "record.json"
)

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
