package recorded

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// run runs all nodes until the test ends, and one watch over their Nodes. They
// start a hundred at a time: all at once would measure how a server that is
// flooded comes round.
func (f *fleet) run(text string) {
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	f.Cleanup(func() {
		cancel()
		group.Wait()
	})

	group.Go(func() {
		for ctx.Err() == nil {
			// The server ends the watch of who is slow; the next begins with
			// all Nodes.
			_ = f.Watch(ctx, nodes+"?watch=1", func(line []byte) { f.see(ctx, line) })
		}
	})

	started := 0
	for some := range slices.Chunk(f.nodes, 100) {
		for _, n := range some {
			group.Go(func() {
				if err := errors.Join(n.Run(ctx), n.Close()); err != nil {
					f.Error(err)
				}
			})
		}
		started += len(some)
		f.reached(text, started)
	}
}

// see takes in a line of the watch until ctx ends: then the test reads no more.
func (f *fleet) see(ctx context.Context, line []byte) {
	now := time.Now()
	var event struct{ Object object }
	if json.Unmarshal(line, &event) == nil {
		n := event.Object.Metadata
		select {
		case f.seen <- sighting{n.Name, n.Annotations[applied], now}:
		case <-ctx.Done():
		}
	}
}

// reached waits until so many Nodes say that they run text, and returns when
// half of them were seen to, and the last.
func (f *fleet) reached(text string, all int) (half, last time.Time) {
	f.Helper()
	want := sum(text)
	have := 0
	for _, value := range f.shown {
		if value == want {
			have++
		}
	}

	limit := time.After(f.patience)
	for have < all {
		select {
		case a := <-f.seen:
			if before := f.shown[a.node]; a.value == want && before != want {
				have += 1
				last = a.at
			}
			f.shown[a.node] = a.value
			if half.IsZero() && 2*have >= all {
				half = last
			}
		case <-limit:
			f.Fatalf("the change reached %d of %d Nodes", have, all)
		}
	}

	return half, last
}

// rested waits until the change has proven itself on every node.
func (f *fleet) rested() {
	f.Helper()
	for _, n := range f.nodes {
		f.await("the end of the change", func() error {
			_, err := os.Lstat(filepath.Join(n.Dir, "var/lib/loam/journal.json"))
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			return errors.Join(errors.New("it has not proven itself"), err)
		})
	}
}
