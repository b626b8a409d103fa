package pxe

import (
	"fmt"
	"net/http"
	"time"
)

// clientTimeout is how long a client may accept no data.
const clientTimeout = 30 * time.Second

// sending is an answer that ends if its client takes nothing for a while, so
// that it holds no place for good.
type sending struct {
	http.ResponseWriter
	control *http.ResponseController
	bytes   int64
	err     error
}

// Patient has the answers of h end so.
func Patient(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(&sending{ResponseWriter: w, control: http.NewResponseController(w)}, r)
	})
}

func (s *sending) Write(p []byte) (int, error) {
	if err := s.control.SetWriteDeadline(time.Now().Add(clientTimeout)); err != nil {
		return 0, err
	}

	n, err := s.ResponseWriter.Write(p)
	s.bytes += int64(n)
	s.err = err
	return n, err
}

// Amount says how much was sent, and whether it was all, for messages.
func Amount(bytes int64, took time.Duration, err error) string {
	if err != nil {
		return fmt.Sprintf("not sent: %v", err)
	}
	return fmt.Sprintf("%.1f MB in %.1f s", float64(bytes)/1e6, took.Seconds())
}
