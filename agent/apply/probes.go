package apply

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/loam-os/loam/agent/generation"
)

// answerLimit is how long a unit may take to answer. One that hangs keeps the
// agent waiting for it each time.
const answerLimit = 2 * time.Second

// probes ask units, by name, whether they do their work.
type probes map[string]func(ctx context.Context) error

// ask asks units side by side, and returns an error or nil for each that has a
// probe.
func (p probes) ask(ctx context.Context, units []string) map[string]error {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()

	var (
		all     sync.WaitGroup
		mutex   sync.Mutex
		answers = map[string]error{}
	)
	for _, name := range units {
		probe, ok := p[name]
		if !ok {
			continue
		}
		all.Go(func() {
			err := probe(ctx)
			mutex.Lock()
			defer mutex.Unlock()
			answers[name] = err
		})
	}

	all.Wait()
	return answers
}

// answering returns the units that answer.
func (p probes) answering(ctx context.Context, units []generation.Unit) []string {
	var names []string
	for _, u := range units {
		names = append(names, u.Name)
	}

	answers := p.ask(ctx, names)
	maps.DeleteFunc(answers, func(_ string, err error) bool { return err != nil })
	return slices.Sorted(maps.Keys(answers))
}
