package link

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
)

// fakeKernel gives network interfaces, and stops at once or later.
type fakeKernel struct {
	start time.Time
	// lasts is how long each attempt goes well, for ever after the last one; a
	// negative one is an error.
	lasts []time.Duration

	// attempts are when it was asked, from the start, and open is how many of them
	// have not been ended.
	attempts []time.Duration
	open     atomic.Int32
}

func (k *fakeKernel) subscribe(ctx context.Context) (<-chan netlink.LinkUpdate, error) {
	n := len(k.attempts)
	k.attempts = append(k.attempts, time.Since(k.start))
	lasts := time.Hour
	if n < len(k.lasts) {
		lasts = k.lasts[n]
	}
	if lasts < 0 {
		return nil, errors.New("no buffer")
	}

	k.open.Add(1)
	context.AfterFunc(ctx, func() { k.open.Add(-1) })
	updates := make(chan netlink.LinkUpdate)
	go func() {
		defer close(updates)
		updates <- netlink.LinkUpdate{}
		select {
		case <-time.After(lasts):
		case <-ctx.Done():
		}
	}()
	return updates, nil
}

// A socket that fails at once, for whatever reason, must not take a processor.
func TestInterfacesAreReceivedAgainAfterAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &fakeKernel{
			start: time.Now(),
			lasts: []time.Duration{0, 0, -1, -1, 0, 0, 0, 0, 0, time.Minute},
		}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		said := 0
		all, err := interfaces(ctx, &wg, k.subscribe, func(string, ...any) { said++ })
		if err != nil {
			t.Fatal(err)
		}

		received := 0
		wg.Go(func() {
			for {
				select {
				case <-all:
					received++
				case <-ctx.Done():
					return
				}
			}
		})
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		if n := k.open.Load(); n != 1 {
			t.Errorf("%d are open", n)
		}
		cancel()
		wg.Wait()

		// The last one is at once, as the one before it went well for a while.
		var pauses []time.Duration
		for i := 1; i < len(k.attempts); i++ {
			pauses = append(pauses, k.attempts[i]-k.attempts[i-1])
		}
		const ms = time.Millisecond
		want := []time.Duration{
			100 * ms, 200 * ms, 400 * ms, 800 * ms, 1600 * ms, 3200 * ms, 6400 * ms,
			maxAgain, maxAgain, time.Minute,
		}
		if diff := cmp.Diff(want, pauses); diff != "" {
			t.Errorf("pauses (-want +got):\n%s", diff)
		}
		if received != 9 || said != 1 {
			t.Errorf("received %d, said %d", received, said)
		}
	})
}

func TestInterfacesThatCannotBeReceivedAtFirst(t *testing.T) {
	k := &fakeKernel{start: time.Now(), lasts: []time.Duration{-1}}
	var wg sync.WaitGroup
	if _, err := interfaces(t.Context(), &wg, k.subscribe, t.Logf); err == nil {
		t.Error("no error")
	}
	wg.Wait()
}
