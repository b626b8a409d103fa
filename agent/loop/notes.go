package loop

import (
	"fmt"
	"maps"
	"slices"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/config"
)

// reportNotes reports what operators should know of a document, one Event for
// each reason.
func reportNotes(notes []config.Note) []Effect {
	var effects []Effect
	byReason := map[string][]config.Note{}
	for _, n := range notes {
		effects = append(effects, warning("the document is followed, but not to the letter",
			zap.String("reason", n.Reason),
			zap.Stringer("note", n),
			zap.String("hint", n.Hint)))
		byReason[n.Reason] = append(byReason[n.Reason], n)
	}
	for _, reason := range slices.Sorted(maps.Keys(byReason)) {
		effects = append(effects, Event{Reason: reason, Message: summary(byReason[reason])})
	}
	return effects
}

// summary is the first of some notes, and how many more there are.
func summary(notes []config.Note) string {
	text := notes[0].String()
	if more := len(notes) - 1; more > 0 {
		text += fmt.Sprintf(" (and %d more: loam status)", more)
	}
	return text
}
