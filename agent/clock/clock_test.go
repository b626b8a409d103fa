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
		{
			"Debian's",
			"#1 SMP PREEMPT_DYNAMIC Debian 6.12.57-1 (2025-11-05)",
			time.Date(2025, 11, 5, 0, 0, 0, 0, time.UTC),
		},
		{"one with another kind of date", "#1 SMP Wed Nov  5 12:00:00 UTC 2025", time.Time{}},
		{"one without a date", "#1 SMP (rt)", time.Time{}},
	} {
		got, err := kernelDate(test.version)
		if !got.Equal(test.want) || (err != nil) != test.want.IsZero() {
			t.Errorf("%s: %v, %v", test.name, got, err)
		}
	}
}

func TestCredible(t *testing.T) {
	built := time.Date(2025, 11, 5, 0, 0, 0, 0, time.UTC)

	for _, test := range []struct {
		name      string
		now, want time.Time
	}{
		{"a clock that is right", built.Add(time.Hour), built.Add(time.Hour)},
		{"a clock that has never been set", time.Unix(0, 0), built},
		{"a second before the image", built.Add(-time.Second), built},
		{"ten years after it", built.AddDate(10, 0, 0), built.AddDate(10, 0, 0)},
		{"1970 as a PC says it", time.Date(2070, 1, 1, 0, 0, 6, 0, time.UTC), built},
		{"further than a Duration", time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), built},
	} {
		if got := Credible(test.now, built); !got.Equal(test.want) {
			t.Errorf("%s: %v", test.name, got)
		}
	}
}
