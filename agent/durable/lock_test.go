package durable_test

import (
	"errors"
	"testing"

	"github.com/loam-os/loam/agent/durable"
)

func TestLockIsFreeAgainOnceItsFileIsClosed(t *testing.T) {
	root := open(t)
	first, err := durable.Lock(root, "lock")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := durable.TryLock(root, "lock"); !errors.Is(err, durable.ErrLocked) {
		t.Errorf("a second lock: %v, want %v", err, durable.ErrLocked)
	}

	waited := make(chan error, 1)
	go func() {
		second, err := durable.Lock(root, "lock")
		if err == nil {
			err = second.Close()
		}
		waited <- err
	}()
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-waited; err != nil {
		t.Errorf("wait for the lock: %v", err)
	}

	third, err := durable.TryLock(root, "lock")
	if err != nil {
		t.Fatalf("the lock after all: %v", err)
	}
	third.Close()
}

func TestLockInADirectoryThatIsNotThere(t *testing.T) {
	if _, err := durable.TryLock(open(t), "none/lock"); err == nil ||
		errors.Is(err, durable.ErrLocked) {
		t.Errorf("error %v", err)
	}
}
