package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/loam-os/loam/agent/status"
)

func TestWatchingPrintsTheUnitOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "status.json")
		write := func(s status.Status) {
			text, err := json.Marshal(s)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, text, 0o600); err != nil {
				t.Fatal(err)
			}
			time.Sleep(3 * pollInterval)
			synctest.Wait()
		}

		var out strings.Builder
		stop := watching(t.Context(), &out, file, func() time.Duration { return time.Minute })
		time.Sleep(pollInterval)
		a := status.Awaited{
			Unit:     "a.service",
			State:    "activating/start-pre",
			Deadline: 3 * time.Minute,
		}
		write(status.Status{})
		write(status.Status{Awaited: &a})
		a.State = "activating/start"
		write(status.Status{Awaited: &a})
		write(status.Status{})
		stop()

		const want = "waiting for a.service, which is activating/start-pre; " +
			"taken back in 2m0s if it is not up\n" +
			"waiting for a.service, which is activating/start; taken back in 2m0s if it is not up\n"
		if out.String() != want {
			t.Errorf("printed\n%s, want\n%s", &out, want)
		}
	})
}
