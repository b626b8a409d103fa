package meter_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/loam-os/loam/image/meter"
)

func TestProgressIsReported(t *testing.T) {
	var reports []string
	part := meter.Begin(t.Context(), "verify", 10, func(name string, done, all int64) {
		reports = append(reports, fmt.Sprintf("%s %d of %d", name, done, all))
	})

	text, err := io.ReadAll(io.TeeReader(strings.NewReader("12345"), part))
	if string(text) != "12345" || err != nil {
		t.Errorf("read %q, %v", text, err)
	}
	at := make([]byte, 3)
	n, err := part.ReaderAt(strings.NewReader("12345")).ReadAt(at, 1)
	if n != 3 || string(at) != "234" || err != nil {
		t.Errorf("read %q, %v", at, err)
	}
	if err := errors.Join(part.Reach(7), part.Reach(9), part.Add(7)); err != nil {
		t.Error(err)
	}

	want := []string{
		"verify 5 of 10", "verify 8 of 10", "verify 8 of 10", "verify 9 of 10", "verify 10 of 10",
	}
	if !slices.Equal(reports, want) {
		t.Errorf("reported %q, want %q", reports, want)
	}
}

func TestWorkEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	part := meter.Begin(ctx, "verify", 10, meter.None)

	if _, err := part.Write([]byte("12345")); !errors.Is(err, context.Canceled) {
		t.Errorf("write: error %v", err)
	}
	_, err := part.ReaderAt(strings.NewReader("12345")).ReadAt(make([]byte, 3), 1)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("read: error %v", err)
	}
}
