package etcd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

const (
	// observeTimeout is for requests that etcd answers from memory.
	observeTimeout = 10 * time.Second

	// stepTimeout is for steps in which etcd reads and writes its whole file: at
	// 10 MB a second, 2 GiB take 4 minutes.
	stepTimeout = 10 * time.Minute

	// maxAnswer is larger than any answer, which are some kilobytes, or the
	// metrics, which are 100.
	maxAnswer = 8 << 20
)

// fsyncMetric is the name of the histogram of syncs
// (etcd/server/storage/wal/metrics.go).
const fsyncMetric = "etcd_disk_wal_fsync_duration_seconds"

// outOfRange is the code of gRPC with which etcd refuses to compact what is
// compacted (etcd/api/v3rpc/rpctypes/error.go).
const outOfRange = 11

// Client asks one member of etcd.
type Client struct {
	// URL is the client URL, such as https://127.0.0.1:2379. MetricsURL is the
	// URL of the metrics.
	URL        string
	MetricsURL string

	// Measured is the 99th percentile of a sync that decided on the timing of etcd, 0
	// if none did.
	Measured time.Duration

	// HTTP has the certificate of a client of etcd.
	HTTP *http.Client
}

// Close ends the connections.
func (c Client) Close() { c.HTTP.CloseIdleConnections() }

// statusError is why etcd refuses a request (google/rpc/status.proto).
type statusError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// Error implements error.
func (e *statusError) Error() string { return e.Message }

// Observe returns the state. before are the syncs of the last look, empty at the
// first.
func (c Client) Observe(ctx context.Context, before Histogram) (State, error) {
	ctx, cancel := context.WithTimeout(ctx, observeTimeout)
	defer cancel()

	var status struct {
		Header struct {
			Member   uint64 `json:"member_id,string"`
			Revision int64  `json:"revision,string"`
		} `json:"header"`
		Version   string `json:"version"`
		Size      int64  `json:"dbSize,string"`
		InUse     int64  `json:"dbSizeInUse,string"`
		Quota     int64  `json:"dbSizeQuota,string"`
		Leader    uint64 `json:"leader,string"`
		RaftIndex uint64 `json:"raftIndex,string"`
	}
	if err := c.post(ctx, "maintenance/status", struct{}{}, &status); err != nil {
		return State{}, err
	}
	s := State{
		Version:   status.Version,
		Size:      status.Size,
		InUse:     status.InUse,
		Quota:     status.Quota,
		Revision:  status.Header.Revision,
		RaftIndex: status.RaftIndex,
		Member:    status.Header.Member,
		Leader:    status.Leader,
	}

	var alarms struct {
		Alarms []struct {
			Member uint64 `json:"memberID,string"`
			Kind   string `json:"alarm"`
		} `json:"alarms"`
	}
	if err := c.post(ctx, "maintenance/alarm", struct{}{}, &alarms); err != nil {
		return State{}, err
	}
	for _, alarm := range alarms.Alarms {
		s.Alarms = append(s.Alarms, Alarm{alarm.Member, alarm.Kind})
	}

	var members struct {
		Members []struct{} `json:"members"`
	}
	if err := c.post(ctx, "cluster/member/list", struct{}{}, &members); err != nil {
		return State{}, err
	}
	s.Members = len(members.Members)
	s.Measured = c.Measured

	s.Fsyncs, s.MetricsError = c.fsyncs(ctx)
	recent := s.Fsyncs.Since(before)
	s.Recent = recent.Total()
	s.FsyncP99 = recent.Quantile(0.99)
	return s, nil
}

// Apply does one step, in one request.
func (c Client) Apply(ctx context.Context, step Step) error {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()

	switch step.Action {
	case Compact:
		// With physical, etcd answers when the pages are free.
		err := c.post(ctx, "kv/compaction", map[string]any{
			"revision": step.Revision,
			"physical": true,
		}, nil)
		if refusal, is := errors.AsType[*statusError](err); is && refusal.Code == outOfRange {
			return nil
		}
		return err

	case Defragment:
		return c.post(ctx, "maintenance/defragment", struct{}{}, nil)

	case Disarm:
		return c.post(ctx, "maintenance/alarm", map[string]any{
			"action":   "DEACTIVATE",
			"memberID": step.Member,
			"alarm":    NoSpace,
		}, nil)

	case Nothing:
	}
	return nil
}

// post sends a request to the gateway and decodes the answer, unless it is nil.
func (c Client) post(ctx context.Context, method string, request, answer any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return fmt.Errorf("etcd: %s: %w", method, err)
	}
	text, code, err := c.do(ctx, http.MethodPost, c.URL+"/v3/"+method, body)
	if err != nil {
		return err
	}

	if code != http.StatusOK {
		refusal := &statusError{Message: strings.ToLower(http.StatusText(code))}
		_ = json.Unmarshal(text, refusal) // It need not be from etcd.
		return fmt.Errorf("etcd: %s: %w", method, refusal)
	}
	if answer == nil {
		return nil
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return fmt.Errorf("etcd: the answer to %s: %w", method, err)
	}
	return nil
}

func (c Client) fsyncs(ctx context.Context) (Histogram, error) {
	text, code, err := c.do(ctx, http.MethodGet, c.MetricsURL, nil)
	if err != nil {
		return nil, err
	}
	if code != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", c.MetricsURL, strings.ToLower(http.StatusText(code)))
	}
	return ReadHistogram(bytes.NewReader(text), fsyncMetric)
}

func (c Client) do(ctx context.Context, method, url string, body []byte) ([]byte, int, error) {
	request, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, 0, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := c.HTTP.Do(request)
	if err != nil {
		return nil, 0, err
	}
	defer response.Body.Close()

	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return nil, 0, fmt.Errorf("%s: %w", url, err)
	}
	return text, response.StatusCode, nil
}
