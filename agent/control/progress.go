package control

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strconv"
	"sync"
	"time"
)

// An answer that takes long is preceded by informational responses (RFC 9110,
// section 15.2): 102, with how many bytes of all are done in two fields. A client
// that does not know them passes over them.
const (
	doneField = "Loam-Done"
	allField  = "Loam-All"
)

// progressInterval is the time between two of them.
const progressInterval = 500 * time.Millisecond

// amount is how many bytes of all are done.
type amount struct{ done, all int64 }

// withProgress returns the result of do, and sends meanwhile what do reports: the
// newest at the end of each interval, and the last before it returns. A report
// does not wait for the client, so a client that reads nothing stops no work. It
// is for one goroutine at a time.
func withProgress[A any](
	w http.ResponseWriter, do func(report func(done, all int64)) (A, error),
) (A, error) {
	reports := make(chan amount, 1)
	report := func(done, all int64) {
		select {
		case <-reports: // It was not sent yet.
		default:
		}
		select {
		case reports <- amount{done, all}:
		default:
		}
	}

	type result struct {
		answer A
		err    error
	}
	ended := make(chan result, 1)
	go func() {
		answer, err := do(report)
		ended <- result{answer, err}
	}()

	var pause <-chan time.Time // nil if the next report is sent at once
	for {
		next := reports
		if pause != nil {
			next = nil
		}
		select {
		case a := <-next:
			a.send(w)
			pause = time.After(progressInterval)
		case <-pause:
			pause = nil
		case r := <-ended:
			select {
			case a := <-reports:
				a.send(w)
			default:
			}
			return r.answer, r.err
		}
	}
}

// send sends an informational response. It is best effort: the client may be gone.
func (a amount) send(w http.ResponseWriter) {
	controller := http.NewResponseController(w)
	if controller.SetWriteDeadline(time.Now().Add(sendTime)) != nil {
		return
	}

	w.Header().Set(doneField, strconv.FormatInt(a.done, 10))
	w.Header().Set(allField, strconv.FormatInt(a.all, 10))
	w.WriteHeader(http.StatusProcessing)
	w.Header().Del(doneField)
	w.Header().Del(allField)

	_ = controller.SetWriteDeadline(time.Time{})
}

// reporting returns a context whose request calls report, unless that is nil, with
// what the informational responses say. After end it is not called any more.
func reporting(
	ctx context.Context, report func(done, all int64),
) (_ context.Context, end func()) {
	if report == nil {
		return ctx, func() {}
	}

	var one sync.Mutex
	ended := false
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		Got1xxResponse: func(_ int, header textproto.MIMEHeader) error {
			one.Lock()
			defer one.Unlock()

			a, err := amountOf(header)
			if err == nil && !ended {
				report(a.done, a.all)
			}
			return err
		},
	})

	return ctx, func() {
		one.Lock()
		defer one.Unlock()
		ended = true
	}
}

// amountOf reads an informational response.
func amountOf(header textproto.MIMEHeader) (amount, error) {
	done, err := strconv.ParseInt(header.Get(doneField), 10, 64)
	if err != nil {
		return amount{}, fmt.Errorf("read %s: %w", doneField, err)
	}
	all, err := strconv.ParseInt(header.Get(allField), 10, 64)
	if err != nil {
		return amount{}, fmt.Errorf("read %s: %w", allField, err)
	}
	return amount{done, all}, nil
}
