package etcd

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
)

// Histogram counts durations by their length. The empty Histogram has none.
type Histogram []Bucket

// Bucket is the number of durations up to a limit.
type Bucket struct {
	// Limit is in seconds, inclusive. The last one is +Inf.
	Limit float64
	// Count includes the buckets before.
	Count uint64
}

// ReadHistogram reads the histogram of a name, without labels of its own, from
// metrics in Prometheus' text format
// (https://prometheus.io/docs/instrumenting/exposition_formats). It passes over
// other metrics.
func ReadHistogram(r io.Reader, name string) (Histogram, error) {
	var h Histogram
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		rest, found := strings.CutPrefix(lines.Text(), name+"_bucket")
		if !found {
			continue
		}
		bucket, err := parseBucket(rest)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		h = append(h, bucket)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read the metrics: %w", err)
	}

	if err := h.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return h, nil
}

// parseBucket reads what follows the name, such as `{le="0.001"} 3`. A large
// count has an exponent: 1.048576e+06.
func parseBucket(text string) (Bucket, error) {
	rest, opened := strings.CutPrefix(text, `{le="`)
	limit, count, closed := strings.Cut(rest, `"} `)
	if !opened || !closed {
		return Bucket{}, fmt.Errorf("bucket %q: want one label, le, and a count", text)
	}

	seconds, err := strconv.ParseFloat(limit, 64)
	if err != nil || math.IsNaN(seconds) {
		return Bucket{}, fmt.Errorf("bucket %q: the limit is not a number", text)
	}

	// Larger numbers are not exact in this format.
	n, err := strconv.ParseFloat(count, 64)
	if err != nil || n != math.Trunc(n) || n < 0 || n > 1<<53 {
		return Bucket{}, fmt.Errorf("bucket %q: the count is not a whole number", text)
	}
	return Bucket{seconds, uint64(n)}, nil
}

// check returns what is wrong with the buckets.
func (h Histogram) check() error {
	if len(h) == 0 {
		return errors.New("there are no buckets")
	}
	if !math.IsInf(h[len(h)-1].Limit, 1) {
		return fmt.Errorf("the last bucket ends at %v: want +Inf", h[len(h)-1].Limit)
	}
	for i := range h[1:] {
		if h[i+1].Limit <= h[i].Limit || h[i+1].Count < h[i].Count {
			return fmt.Errorf("bucket %v does not follow %v", h[i+1], h[i])
		}
	}
	return nil
}

// Total returns the number of durations.
func (h Histogram) Total() uint64 {
	if len(h) == 0 {
		return 0
	}
	return h[len(h)-1].Count
}

// Since returns the durations since before: all if there is none before, or if
// the program has started again since.
func (h Histogram) Since(before Histogram) Histogram {
	if len(before) != len(h) {
		return h
	}

	since := make(Histogram, len(h))
	var sum uint64
	for i := range h {
		if h[i].Limit != before[i].Limit || h[i].Count < before[i].Count {
			return h
		}
		since[i] = Bucket{h[i].Limit, h[i].Count - before[i].Count}

		// Differences that do not ascend are of a program that has started again
		// and done more since.
		if since[i].Count < sum {
			return h
		}
		sum = since[i].Count
	}
	return since
}

// Quantile returns the length that a share q of all durations does not exceed, 0
// if there are none. Within a bucket, lengths are taken as evenly spread, and
// none is longer than the last limit, as in Prometheus' histogram_quantile.
func (h Histogram) Quantile(q float64) time.Duration {
	rank := q * float64(h.Total())
	if rank == 0 {
		return 0
	}

	from := Bucket{}
	for _, to := range h {
		if float64(to.Count) >= rank {
			if math.IsInf(to.Limit, 1) {
				break
			}
			share := (rank - float64(from.Count)) / float64(to.Count-from.Count)
			return seconds(from.Limit + share*(to.Limit-from.Limit))
		}
		from = to
	}
	return seconds(from.Limit)
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
