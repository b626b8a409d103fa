package local

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestCheck(t *testing.T) {
	status := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
	}))
	if err := check(t.Context(), server.Client(), server.URL); err != nil {
		t.Error(err)
	}

	status = http.StatusServiceUnavailable
	err := check(t.Context(), server.Client(), server.URL)
	if err == nil || err.Error() != server.URL+": 503 service unavailable" {
		t.Errorf("a program that is not well: %v", err)
	}

	server.Close()
	if check(t.Context(), server.Client(), server.URL) == nil {
		t.Error("a program that is away is well")
	}
}
