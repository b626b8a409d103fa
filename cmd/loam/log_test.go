package main

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/loam-os/loam/hint"
)

func TestLogHasTheHintOfAnErrorBesideIt(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	log := zap.New(hintCore{core})

	full := hint.With(errors.New("disk full"), "delete files")
	log.Warn("write", zap.Error(fmt.Errorf("a: %w", full)), zap.Int("bytes", 5))
	log.With(zap.Error(full)).Info("again")
	log.Info("read", zap.Error(errors.New("no disk")))
	log.Debug("not logged")

	var have []map[string]any
	for _, entry := range logs.All() {
		have = append(have, entry.ContextMap())
	}
	want := []map[string]any{
		{"error": "a: disk full", "bytes": int64(5), "hint": "delete files"},
		{"error": "disk full", "hint": "delete files"},
		{"error": "no disk"},
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("fields (-want +have)\n%s", diff)
	}
}
