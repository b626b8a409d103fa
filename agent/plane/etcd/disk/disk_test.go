package disk

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"testing"
	"time"

	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

func TestAdmit(t *testing.T) {
	const ms = time.Millisecond
	for _, row := range []struct {
		name string
		// measured are the percentiles, one for each try.
		measured []time.Duration
		want     time.Duration
		code     fault.Code
	}{
		{name: "a fast disk is measured once", measured: []time.Duration{2 * ms}, want: 2 * ms},
		{
			name:     "a disk that was busy",
			measured: []time.Duration{300 * ms, 99 * ms},
			want:     99 * ms,
		},
		{
			name:     "a disk that is slow each time",
			measured: []time.Duration{300 * ms, 100 * ms, 400 * ms},
			want:     100 * ms,
			code:     fault.DiskTooSlow,
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			rest := row.measured
			probe := func(context.Context, string) (time.Duration, error) {
				p99 := rest[0]
				rest = rest[1:]
				return p99, nil
			}

			got, err := Admit(t.Context(), probe, "/var/lib")
			if got != row.want || fault.Of(err) != row.code || len(rest) > 0 {
				t.Errorf("%s, %v, %d tries are left", got, err, len(rest))
			}
			if hint.Of(err) == "" != (err == nil) {
				t.Errorf("hint %q", hint.Of(err))
			}
		})
	}
}

func TestMeasureLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	p99, err := Measure(t.Context(), dir)
	if err != nil || p99 <= 0 {
		t.Errorf("%s, %v", p99, err)
	}
	t.Logf("p99 of this disk: %s", p99)

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Measure(ended, dir); !errors.Is(err, context.Canceled) {
		t.Errorf("after its end: %v", err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

func TestMeasureWithoutADirectory(t *testing.T) {
	if _, err := Measure(t.Context(), t.TempDir()+"/none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

func TestPercentile(t *testing.T) {
	var times []time.Duration
	for i := range 100 {
		times = append(times, time.Duration(100-i))
	}
	if got := percentile(times); got != 99 {
		t.Errorf("of 1 to 100: %d", got)
	}
	if got := percentile(times[:3]); got != 100 {
		t.Errorf("of 98 to 100: %d", got)
	}
}
