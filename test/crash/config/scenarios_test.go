package config_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/health"
)

func oneOf(all ...config.Desired) []config.Desired { return all }

func applies(d config.Desired) func(context.Context, *apply.Executor) error {
	return func(ctx context.Context, e *apply.Executor) error {
		_, err := e.Apply(ctx, request(d))
		return err
	}
}

func triesOut(d config.Desired) func(context.Context, *apply.Executor) error {
	return func(ctx context.Context, e *apply.Executor) error {
		_, err := e.Apply(ctx, apply.Request{Desired: d, Source: "test", Try: time.Minute})
		return err
	}
}

func concludes(word health.Word) func(context.Context, *apply.Executor) error {
	return func(ctx context.Context, e *apply.Executor) error {
		_, err := e.Conclude(ctx, health.Verdict{Word: word, Reason: "the test says so"})
		return err
	}
}

func confirms(_ context.Context, e *apply.Executor) error {
	_, err := e.Confirm()
	return err
}

func rollsBack(ctx context.Context, e *apply.Executor) error {
	_, err := e.Rollback(ctx, "")
	return err
}

// changes is the scenario of one change from old to new.
func changes(name string, old, new config.Desired) scenario {
	return scenario{
		name:   name,
		before: oneOf(old),
		next:   new,
		acts:   []act{{do: applies(new), during: oneOf(old, new), after: oneOf(new)}},
	}
}

func scenarios() []scenario {
	old, new := crashOld(), crashNew()
	bad := act{do: concludes(health.Bad), during: oneOf(old, new), after: oneOf(old)}
	good := act{do: concludes(health.Good), during: oneOf(new), after: oneOf(new)}
	applied := act{do: applies(new), during: oneOf(old, new), after: oneOf(new)}

	return append([]scenario{
		{
			name: "first apply",
			next: old,
			acts: []act{{do: applies(old), during: oneOf(nothing, old), after: oneOf(old)}},
		},
		changes("one file", small("1"), small("2")),
		changes("everything", old, new),
		changes("everything, the other way", new, old),
		changes("to nothing",
			old, config.Desired{Files: []config.File{conf("/etc/x", "x", 0o644)}}),
		{
			name: "good, with old generations to delete",
			next: new,
			before: oneOf(
				small("1"),
				small("2"),
				small("3"),
				small("4"),
				small("5"),
				small("6"),
				small("7"),
				old,
			),
			acts: []act{applied, good},
		},
		{
			name:   "bad",
			before: oneOf(old),
			next:   new,
			acts:   []act{applied, bad},
		},
		{name: "the first is bad", next: old, acts: []act{
			{do: applies(old), during: oneOf(nothing, old), after: oneOf(old)},
			{do: concludes(health.Bad), during: oneOf(old), after: oneOf(old)},
		}},
		{
			name:   "rollback",
			before: oneOf(small("1"), old, new),
			next:   new,
			acts:   []act{{do: rollsBack, during: oneOf(old, new), after: oneOf(old)}},
		},
		{
			name:   "rollback of what is watched",
			before: oneOf(old),
			next:   new,
			acts:   []act{applied, {do: rollsBack, during: oneOf(old, new), after: oneOf(old)}},
		},
		{
			name:   "try and confirm",
			before: oneOf(old),
			next:   new,
			acts: []act{
				{
					do:         triesOut(new),
					during:     oneOf(old, new),
					after:      oneOf(new),
					afterPower: oneOf(old),
				},
				{do: confirms, during: oneOf(old, new), after: oneOf(new)}, good,
			},
		},
		{
			name:   "try that is bad",
			before: oneOf(old),
			next:   new,
			acts: []act{
				{
					do:         triesOut(new),
					during:     oneOf(old, new),
					after:      oneOf(new),
					afterPower: oneOf(old),
				}, bad,
			},
		},
		{
			name:   "one after another that has no verdict",
			before: oneOf(old),
			next:   new,
			acts: []act{
				{do: applies(small("1")), during: oneOf(old, small("1")), after: oneOf(small("1"))},
				{do: applies(new), during: oneOf(small("1"), new), after: oneOf(new)},
				{do: concludes(health.Bad), during: oneOf(new, old), after: oneOf(old)},
			},
		},
		inTheWay(old, new),
	}, randomScenarios(12)...)
}

// inTheWay is an apply that cannot be done: a directory with an operator's
// files has the path of a file.
func inTheWay(old, new config.Desired) scenario {
	blocked := new
	blocked.Files = append(
		append([]config.File{}, new.Files...),
		conf("/var/lib/db", "in the way", 0o644),
	)

	return scenario{
		name:   "a directory in the way",
		before: oneOf(old),
		next:   new,
		acts: []act{{
			during: oneOf(old, blocked),
			after:  oneOf(old),
			do: func(ctx context.Context, e *apply.Executor) error {
				if _, err := e.Apply(ctx, request(blocked)); err == nil {
					return errors.New("a file took the place of a directory")
				}
				return nil
			},
		}},
	}
}

func randomScenarios(count int) []scenario {
	var all []scenario
	for i := range count {
		r := rand.New(rand.NewPCG(crashSeed(), uint64(i)))
		old, new := randomConfig(r), randomConfig(r)
		s := changes(fmt.Sprintf("random %d", i), old, new)
		s.acts = append(s.acts, act{
			do:     concludes(health.Bad),
			during: oneOf(old, new),
			after:  oneOf(old),
		})
		all = append(all, s)
	}
	return all
}
