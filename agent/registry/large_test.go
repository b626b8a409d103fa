package registry

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/loam-os/loam/test/cluster"
	"github.com/loam-os/loam/test/containerd"
)

// large is an incompressible kubelet of n bytes.
func large(n int) []byte {
	data := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{}).Read(data)
	return data
}

// A kubelet is never read into memory: not when it is pulled, found or read.
func TestLargeFileIsStreamed(t *testing.T) {
	const size, most = 80 << 20, 32 << 20
	c := containerd.Start(t)
	r := cluster.StartRegistry(t, cluster.RegistryOptions{})
	want := pushLarge(t, r, size)
	before := startPeak(t)

	file, err := New(c.Socket()).Image(t.Context(), r.Address()+"/a/kubelet:v1", "/kubelet")
	if err != nil {
		t.Fatal(err)
	}

	o, err := file.Open()
	if err != nil {
		t.Fatal(err)
	}

	sum := sha256.New()
	n, err := io.Copy(sum, o)
	if err := errors.Join(err, o.Close()); err != nil || n != size ||
		hex.EncodeToString(sum.Sum(nil)) != want || file.Digest != want {
		t.Errorf("%d bytes, %v, not what was pushed", n, err)
	}

	grown := status(t, "VmHWM") - before
	t.Logf("grown by %d KiB", grown>>10)
	if grown > most {
		t.Errorf("memory grew by %d bytes, want at most %d", grown, most)
	}
}

func pushLarge(t *testing.T, r *cluster.Registry, size int) string {
	data := large(size)
	r.Push(t, "a/kubelet:v1", cluster.Image{Layers: []cluster.Layer{{"kubelet": {Content: data}}}})
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// startPeak resets VmHWM and returns the present resident memory (proc(5),
// /proc/pid/clear_refs).
func startPeak(t *testing.T) int {
	t.Helper()
	debug.FreeOSMemory()
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
		t.Fatal(err)
	}
	return status(t, "VmRSS")
}

// status returns a size from /proc/self/status.
func status(t *testing.T, name string) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}

	_, rest, _ := strings.Cut(string(text), name+":")
	var kib int
	if _, err := fmt.Sscanf(rest, "%d kB", &kib); err != nil {
		t.Fatalf("%s: %v", name, err)
	}

	return kib << 10
}

// body answers each read after a delay.
type body struct{ each time.Duration }

func (b body) Read(p []byte) (int, error) { time.Sleep(b.each); return len(p), nil }

func (body) Close() error { return nil }

// The clock is synctest's, so the test does not wait.
func TestSilentRegistryTimesOut(t *testing.T) {
	for _, row := range []struct {
		name string
		each time.Duration
		want bool
	}{
		{"slow but not silent", silenceTimeout - time.Second, false},
		{"silent for longer than the timeout", silenceTimeout + time.Second, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancel(t.Context())
				defer stop()

				l := limit(body{row.each}, silenceTimeout, stop)
				for range 3 {
					if _, err := l.Read(make([]byte, 1)); err != nil {
						t.Fatal(err)
					}
				}

				synctest.Wait()
				if stopped := ctx.Err() != nil; stopped != row.want {
					t.Errorf("stopped: %t, want %t", stopped, row.want)
				}
			})
		})
	}
}
