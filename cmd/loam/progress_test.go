package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

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
			Deadline: status.Duration(3 * time.Minute),
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

func TestProgressOfAnUpgrade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "status.json")
		ctx, cancel := context.WithCancel(t.Context())
		var out strings.Builder
		done := make(chan struct{})
		go func() {
			defer close(done)
			showProgress(ctx, &out, file)
		}()

		write := func(u status.Upgrade) {
			text, err := json.Marshal(status.Status{Upgrade: &u})
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, text, 0o600); err != nil {
				t.Fatal(err)
			}
			time.Sleep(4 * pollInterval)
			synctest.Wait()
		}

		u := status.Upgrade{
			Phase: "staging",
			To:    "0.2.0",
			Part:  "root",
			Size:  64 << 20,
		}
		write(u)
		u.Problem = "the repository cannot be reached"
		write(u)
		u.Problem = ""
		u.Done = 16 << 20
		for range 5 {
			write(u)
		}
		u.Done = u.Size
		write(u)
		cancel()
		<-done

		const want = "0.2.0 root   0 %   0.0 of 64.0 MiB\n" +
			"0.2.0: the repository cannot be reached; the agent tries again by itself\n" +
			"0.2.0 root  25 %  16.0 of 64.0 MiB   1.4 MiB/s  34s left\n" +
			"0.2.0 root 100 %  64.0 of 64.0 MiB   4.6 MiB/s  in 14s\n"
		if diff := cmp.Diff(want, out.String()); diff != "" {
			t.Errorf("printed (-want +have)\n%s", diff)
		}
	})
}
