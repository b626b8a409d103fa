package main

import (
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/loam-os/loam/hint"
)

// hintCore logs the hints of an error in a field of their own, beside the error.
type hintCore struct{ zapcore.Core }

// With implements [zapcore.Core].
func (c hintCore) With(fields []zapcore.Field) zapcore.Core {
	return hintCore{c.Core.With(withHints(fields))}
}

// Check implements [zapcore.Core].
func (c hintCore) Check(e zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return checked.AddCore(e, c)
	}
	return checked
}

// Write implements [zapcore.Core].
func (c hintCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	return c.Core.Write(e, withHints(fields))
}

// withHints adds a field with the hints of each error among fields.
func withHints(fields []zapcore.Field) []zapcore.Field {
	all := fields
	for _, f := range fields {
		err, is := f.Interface.(error)
		if !is || f.Type != zapcore.ErrorType {
			continue
		}
		if advice := hint.Of(err); advice != "" {
			all = append(all[:len(all):len(all)], zap.String("hint", advice))
		}
	}
	return all
}
