package config_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/durable"
)

// faulty fails step number at, from 0, and with forever all that make or sync
// something from then on: a full disk still takes things away.
func faulty(at int, forever bool, errno unix.Errno) (hook durable.Hook, reached func() bool) {
	n := 0
	hook = func(s durable.Step) error {
		n++
		takes := s.Op == durable.Remove || s.Op == durable.RemoveAll
		if n == at+1 || (forever && n > at && !takes) {
			return &durable.Fault{Err: fmt.Errorf("%s: %w", s, errno)}
		}
		return nil
	}
	return hook, func() bool { return n > at }
}

// failure is an error of a step of the apply from old to new, once or from then
// on.
type failure struct {
	name     string
	old, new config.Desired
	errno    unix.Errno
	forever  bool
}

func failures() []failure {
	var all []failure
	for name, pair := range map[string][2]config.Desired{
		"one file": {
			small("1"),
			small("2"),
		}, "everything": {crashOld(), crashNew()}, "first apply": {nothing, crashOld()},
	} {
		for _, errno := range []unix.Errno{unix.ENOSPC, unix.EROFS, unix.EMFILE} {
			for _, forever := range []bool{false, true} {
				all = append(all, failure{
					name:    fmt.Sprintf("%s, %v, forever %v", name, errno, forever),
					old:     pair[0],
					new:     pair[1],
					errno:   errno,
					forever: forever,
				})
			}
		}
	}

	return all
}

// crashFault makes each step fail, without a crash: the error says why, the
// node has the old configuration or waits to be completed, and goes on as soon
// as steps succeed.
func (o *oracle) crashFault(t *testing.T, f failure) (count int) {
	interval := 19
	if thorough() {
		interval = 3
	}

	for at, again := 0, true; again; at += interval {
		var err error
		again, err = o.fault(newCrashNode(t, o.image), f, at)
		if err != nil {
			t.Errorf("at step %d: %v", at, err)
		}
		if again {
			count++
		}
	}
	return count
}

// fault plays one fault and reports whether the apply reached it.
func (o *oracle) fault(n *crashNode, f failure, at int) (bool, error) {
	if f.old.Digest() != nothing.Digest() {
		if err := applyGood(n.executor(), f.old); err != nil {
			return false, err
		}
	}

	hook, reached := faulty(at, f.forever, f.errno)
	n.hook = func(string) durable.Hook { return hook }
	_, err := n.executor().Apply(context.Background(), request(f.new))
	n.hook = func(string) durable.Hook { return nil }
	switch {
	case !reached():
		return false, err
	case err == nil:
		return true, errors.Join(o.is(n, f.new), o.check(n, oneOf(f.new), f.new))
	case !errors.Is(err, f.errno):
		return true, fmt.Errorf("the error does not say why: %w", err)
	case !errors.Is(err, apply.ErrUnfinished):
		// It was undone, or all of it is done and only that could not be kept.
		d, err := n.has(oneOf(f.old, f.new))
		err = errors.Join(err, o.is(n, d))
		if err != nil {
			return true, fmt.Errorf("after the error: %w", err)
		}
	}

	return true, o.check(n, oneOf(f.old, f.new), f.new)
}
