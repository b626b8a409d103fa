package apiserver_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/loam-os/loam/test/apiserver"
)

// create creates a Node by a transport.
func create(t *testing.T, over *apiserver.Transport, name string) (int, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://memory"+nodes,
		strings.NewReader(node(name, "")))
	if err != nil {
		t.Fatal(err)
	}
	a, err := over.RoundTrip(r)
	if err != nil {
		return 0, err
	}
	defer a.Body.Close()
	return a.StatusCode, nil
}

func TestFaultsOfATransport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lost := errors.New("lost")
		var fault apiserver.Fault
		over := &apiserver.Transport{
			Server: apiserver.New(),
			Fault:  func(*http.Request) apiserver.Fault { return fault },
		}

		fault = apiserver.Fault{Refuse: lost}
		if _, err := create(t, over, "refused"); !errors.Is(err, lost) {
			t.Errorf("refused: %v", err)
		}
		fault = apiserver.Fault{}
		if code, err := create(t, over, "refused"); code != 201 || err != nil {
			t.Errorf("after a refusal: %d %v", code, err)
		}

		fault = apiserver.Fault{Lose: lost}
		if _, err := create(t, over, "lost"); !errors.Is(err, lost) {
			t.Errorf("lost: %v", err)
		}
		fault = apiserver.Fault{Delay: time.Minute}
		begun := time.Now()
		if code, err := create(t, over, "lost"); code != 409 || err != nil {
			t.Errorf("after a lost answer: %d %v", code, err)
		}
		if took := time.Since(begun); took != time.Minute {
			t.Errorf("a request that is a minute on its way took %s", took)
		}
	})
}

func TestACutEndsWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		over := &apiserver.Transport{Server: apiserver.New()}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
			"http://memory"+nodes+"?watch=1", nil)
		if err != nil {
			t.Fatal(err)
		}
		a, err := over.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Body.Close()

		if code, err := create(t, over, "a"); code != 201 || err != nil {
			t.Fatalf("%d %v", code, err)
		}
		lines := bufio.NewReader(a.Body)
		if line, err := lines.ReadString('\n'); err != nil || !strings.Contains(line, "ADDED") {
			t.Errorf("%q: %v", line, err)
		}
		over.Cut()
		if line, err := lines.ReadString('\n'); err == nil || errors.Is(err, io.EOF) {
			t.Errorf("after the cut: %q: %v", line, err)
		}
	})
}

// TestAWatchThatEndsAtOnceIsAnswered has many at a time, as the server is rarely done
// before its caller looks.
func TestAWatchThatEndsAtOnceIsAnswered(t *testing.T) {
	over := &apiserver.Transport{Server: http.HandlerFunc(
		func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "expired\n") })}
	var all sync.WaitGroup
	defer all.Wait()
	for range 64 {
		all.Go(func() {
			for range 1000 {
				if err := watchOnce(t.Context(), over); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
}

// watchOnce reads a watch that says "expired" and ends.
func watchOnce(ctx context.Context, over http.RoundTripper) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://memory"+nodes+"?watch=1", nil)
	if err != nil {
		return err
	}
	a, err := over.RoundTrip(r)
	if err != nil {
		return err
	}
	defer a.Body.Close()
	if text, err := io.ReadAll(a.Body); string(text) != "expired\n" || err != nil {
		return fmt.Errorf("%q, %w", text, err)
	}
	return nil
}
