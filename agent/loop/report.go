package loop

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/config"
)

// reporter tells operators what happened to the node: in the log, and as Events
// of the cluster.
type reporter struct {
	log *zap.Logger
	// cluster is nil on a node that is part of none.
	cluster Recorder
}

// newReporter returns a reporter of the loop.
func newReporter(l *Loop) reporter {
	r := reporter{log: l.Log}
	if l.Cluster != nil {
		r.cluster = l.Cluster
	}
	return r
}

// event records a warning in the cluster.
func (r reporter) event(reason, message string) {
	if r.cluster != nil {
		r.cluster.Event(true, reason, message)
	}
}

// repaired reports paths that something else changed.
func (r reporter) repaired(paths []string) {
	if len(paths) == 0 {
		return
	}
	r.log.Warn("repaired what something else had changed", zap.Strings("paths", paths))

	first := strings.Join(paths[:min(5, len(paths))], ", ")
	r.event("FileMismatch", "repaired what something else had changed: "+first)
}

// notes reports what operators should know of a document, one Event for each
// reason.
func (r reporter) notes(notes []config.Note) {
	byReason := map[string][]config.Note{}
	for _, n := range notes {
		r.log.Warn("the document is followed, but not to the letter",
			zap.String("reason", n.Reason),
			zap.Stringer("note", n),
			zap.String("hint", n.Hint))
		byReason[n.Reason] = append(byReason[n.Reason], n)
	}
	for _, reason := range slices.Sorted(maps.Keys(byReason)) {
		r.event(reason, summary(byReason[reason]))
	}
}

// summary is the first of some notes, and how many more there are.
func summary(notes []config.Note) string {
	text := notes[0].String()
	if more := len(notes) - 1; more > 0 {
		text += fmt.Sprintf(" (and %d more: loam status)", more)
	}
	return text
}
