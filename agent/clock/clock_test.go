package clock

import (
	"testing"
	"time"
)

func TestKernelDate(t *testing.T) {
	for _, test := range []struct {
		name, version string
		want          time.Time
	}{
		{"Debian's", "#1 SMP PREEMPT_DYNAMIC Debian 6.12.57-1 (2025-11-05)", time.Date(2025, 11, 5, 0, 0, 0, 0, time.UTC)},
		{"one with another kind of date", "#1 SMP Wed Nov  5 12:00:00 UTC 2025", time.Time{}},
		{"one without a date", "#1 SMP (rt)", time.Time{}},
	} {
		got, err := kernelDate(test.version)
		if !got.Equal(test.want) || (err != nil) != test.want.IsZero() {
			t.Errorf("%s: %v, %v", test.name, got, err)
		}
	}
}
