package link

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/vishvananda/netlink"
)

// opener receives the network interfaces, first those that there are. The channel is
// closed when ctx ends, or when receiving fails, as it does if more has changed
// than the socket holds (ENOBUFS).
type opener func(ctx context.Context) (<-chan netlink.LinkUpdate, error)

// Between two attempts to receive the network interfaces is a pause from minAgain on,
// twice as long each time up to maxAgain. None is before the first one after what
// went well for that long.
const (
	minAgain = 100 * time.Millisecond
	maxAgain = 10 * time.Second
)

// subscribe implements [opener].
func subscribe(ctx context.Context) (<-chan netlink.LinkUpdate, error) {
	updates := make(chan netlink.LinkUpdate)
	err := netlink.LinkSubscribeWithOptions(updates, ctx.Done(),
		netlink.LinkSubscribeOptions{ListExisting: true})
	if err != nil {
		return nil, fmt.Errorf("listen to network interfaces: %w", err)
	}
	return updates, nil
}

// interfaces receives the network interfaces until ctx ends, and begins again
// whenever receiving fails: all are listed again then. It returns an error if the
// first attempt fails, and calls say with that of another. wg waits for it.
func interfaces(
	ctx context.Context,
	wg *sync.WaitGroup,
	open opener,
	say func(format string, args ...any),
) (<-chan netlink.LinkUpdate, error) {
	life, end := context.WithCancel(ctx)
	updates, err := open(life)
	if err != nil {
		end()
		return nil, err
	}

	all := make(chan netlink.LinkUpdate)
	wg.Go(func() {
		var again time.Duration
		reported := ""
		for {
			began := time.Now()
			forward(ctx, updates, all)
			end() // It closes the socket.
			for range updates {
			}

			again = nextPause(again, time.Since(began))
			select {
			case <-time.After(again):
			case <-ctx.Done():
			}
			if ctx.Err() != nil {
				return
			}

			life, end = context.WithCancel(ctx)
			updates, err = open(life)
			if err != nil {
				updates = closed()
			}
			if err != nil && err.Error() != reported {
				reported = err.Error()
				say("%v", err)
			}
		}
	})
	return all, nil
}

// forward sends what it receives until updates is closed or ctx ends.
func forward(
	ctx context.Context, updates <-chan netlink.LinkUpdate, to chan<- netlink.LinkUpdate,
) {
	for {
		select {
		case u, ok := <-updates:
			if !ok {
				return
			}
			select {
			case to <- u:
			case <-ctx.Done():
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// nextPause returns the pause after one that went well for so long; last is the
// pause before it.
func nextPause(last, well time.Duration) time.Duration {
	if well >= maxAgain {
		return 0
	}
	return min(max(2*last, minAgain), maxAgain)
}

func closed() <-chan netlink.LinkUpdate {
	none := make(chan netlink.LinkUpdate)
	close(none)
	return none
}
