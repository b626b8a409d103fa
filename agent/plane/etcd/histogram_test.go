package etcd

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// lines has the metrics of an etcd 3.6, shortened.
const lines = `# HELP etcd_disk_wal_fsync_duration_seconds The latency distributions of fsync called by WAL.
# TYPE etcd_disk_wal_fsync_duration_seconds histogram
etcd_disk_wal_fsync_duration_seconds_bucket{le="0.001"} 3
etcd_disk_wal_fsync_duration_seconds_bucket{le="0.002"} 5
etcd_disk_wal_fsync_duration_seconds_bucket{le="+Inf"} 1.048576e+06
etcd_disk_wal_fsync_duration_seconds_sum 0.014869
etcd_disk_wal_fsync_duration_seconds_count 7
etcd_snap_db_fsync_duration_seconds_bucket{le="0.001"} 0
etcd_server_version{server_version="3.6.16"} 1
`

func TestReadHistogram(t *testing.T) {
	bucket := func(label, count string) string {
		return fsyncMetric + "_bucket{" + label + "} " + count + "\n"
	}
	end := bucket(`le="+Inf"`, "9")

	for _, row := range []struct {
		name, text, wrong string
		want              Histogram
	}{
		{
			name: "what etcd publishes",
			text: lines,
			want: Histogram{{0.001, 3}, {0.002, 5}, {math.Inf(1), 1 << 20}},
		},
		{name: "nothing", wrong: "there are no buckets"},
		{
			name:  "no last bucket",
			text:  bucket(`le="0.001"`, "3"),
			wrong: "the last bucket ends at 0.001: want +Inf",
		},
		{
			name:  "another label",
			text:  bucket(`disk="a",le="0.001"`, "3") + end,
			wrong: `want one label, le, and a count`,
		},
		{
			name:  "a time stamp",
			text:  bucket(`le="0.001"`, "3 1395066363000") + end,
			wrong: "the count is not a whole number",
		},
		{
			name:  "a count that is not whole",
			text:  bucket(`le="0.001"`, "3.5") + end,
			wrong: "the count is not a whole number",
		},
		{
			name:  "a count below 0",
			text:  bucket(`le="0.001"`, "-3") + end,
			wrong: "the count is not a whole number",
		},
		{
			name:  "a limit that is none",
			text:  bucket(`le="NaN"`, "3") + end,
			wrong: "the limit is not a number",
		},
		{
			name:  "counts that do not ascend",
			text:  bucket(`le="0.001"`, "10") + end,
			wrong: "bucket {+Inf 9} does not follow {0.001 10}",
		},
		{
			name:  "limits that do not ascend",
			text:  bucket(`le="0.001"`, "3") + bucket(`le="0.001"`, "3") + end,
			wrong: "bucket {0.001 3} does not follow {0.001 3}",
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			got, err := ReadHistogram(strings.NewReader(row.text), fsyncMetric)
			if (row.wrong == "" && err != nil) || (row.wrong != "" &&
				(err == nil || !strings.Contains(err.Error(), row.wrong))) {
				t.Errorf("error %v, want %q", err, row.wrong)
			}
			if diff := cmp.Diff(row.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestQuantile(t *testing.T) {
	inf := math.Inf(1)
	for _, row := range []struct {
		name string
		h    Histogram
		want time.Duration
	}{
		{name: "no buckets"},
		{name: "no durations", h: Histogram{{0.001, 0}, {inf, 0}}},
		{
			name: "all in the first bucket",
			h:    Histogram{{0.001, 100}, {inf, 100}},
			want: 990 * time.Microsecond,
		},
		{
			name: "between two limits",
			h:    Histogram{{0.001, 98}, {0.002, 100}, {inf, 100}},
			want: 1500 * time.Microsecond,
		},
		{
			name: "an empty bucket in between",
			h:    Histogram{{0.001, 98}, {0.002, 98}, {0.004, 100}, {inf, 100}},
			want: 3 * time.Millisecond,
		},
		{
			name: "longer than all limits",
			h:    Histogram{{0.001, 1}, {8.192, 2}, {inf, 100}},
			want: 8192 * time.Millisecond,
		},
		{name: "no limits", h: Histogram{{inf, 5}}},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := row.h.Quantile(0.99)
			if (got - row.want).Abs() > time.Microsecond {
				t.Errorf("%s, want %s", got, row.want)
			}
		})
	}
}

func TestSince(t *testing.T) {
	inf := math.Inf(1)
	now := Histogram{{0.001, 5}, {0.002, 9}, {inf, 10}}
	for _, row := range []struct {
		name         string
		before, want Histogram
	}{
		{name: "at first", want: now},
		{
			name:   "later",
			before: Histogram{{0.001, 5}, {0.002, 6}, {inf, 6}},
			want:   Histogram{{0.001, 0}, {0.002, 3}, {inf, 4}},
		},
		{
			name:   "after a restart that has done less",
			before: Histogram{{0.001, 6}, {0.002, 9}, {inf, 10}},
			want:   now,
		},
		{
			name:   "after a restart that has done more",
			before: Histogram{{0.001, 0}, {0.002, 8}, {inf, 8}},
			want:   now,
		},
		{
			name:   "after an update with other limits",
			before: Histogram{{0.001, 1}, {0.003, 1}, {inf, 1}},
			want:   now,
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			if diff := cmp.Diff(row.want, now.Since(row.before)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func FuzzReadHistogram(f *testing.F) {
	f.Add(lines)
	f.Add(fsyncMetric + `_bucket{le="+Inf"} 0`)
	f.Fuzz(func(t *testing.T, text string) {
		h, err := ReadHistogram(strings.NewReader(text), fsyncMetric)
		if err != nil {
			return
		}
		if diff := cmp.Diff(h.Total(), h.Since(nil).Total()); diff != "" {
			t.Error(diff)
		}
		if p99 := h.Quantile(0.99); p99 > h.Quantile(1) {
			t.Errorf("99 %% take up to %s, all %s", p99, h.Quantile(1))
		}
	})
}
