package main

import (
	"errors"
	"fmt"
	"strings"
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

func TestLogHasNoPasswords(t *testing.T) {
	const url = "http://ada:s3cret@host/updates"
	var out strings.Builder
	log := logger(&out)
	log.Info("open "+url, zap.String("at", url), zap.Strings("all", []string{url, url}),
		zap.Error(hint.With(fmt.Errorf("Get %q: no answer", url), "curl %s", url)))
	if strings.Contains(out.String(), "s3cret") {
		t.Error(out.String())
	}
	if n := strings.Count(out.String(), "http://ada:xxxxx@host/updates"); n != 6 {
		t.Errorf("%d of 6 URLs: %s", n, out.String())
	}
}
