package mount

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// System is a mount namespace.
type System interface {
	Table() (Table, error)
	// Unmount detaches the topmost mount at point and does not follow a
	// symbolic link there.
	Unmount(ctx context.Context, point string) error
}

// UnmountBelow unmounts everything beneath dir, but not dir itself. It reads
// the table again after each round, as a mount that was covered by another one
// appears only then. The error names the mounts that stay.
func UnmountBelow(ctx context.Context, s System, dir string) error {
	var errs []error
	for before := -1; ctx.Err() == nil; {
		table, err := s.Table()
		if err != nil {
			return err
		}

		// A round that unmounts nothing is the last.
		points := table.Below(dir)
		if len(points) == 0 {
			return nil
		}
		if len(points) == before {
			return errors.Join(errs...)
		}
		before = len(points)

		errs = nil
		for _, point := range points {
			if err := s.Unmount(ctx, point); err != nil {
				errs = append(errs, fmt.Errorf("unmount %s: %w", point, err))
			}
		}
	}
	return ctx.Err()
}

// Kernel is the mount namespace of this process. It implements [System].
type Kernel struct{}

// Table implements [System].
func (Kernel) Table() (Table, error) {
	text, err := os.ReadFile("/" + Path)
	if err != nil {
		return nil, fmt.Errorf("read the mounts: %w", err)
	}
	return Parse(string(text)), nil
}

// unmountTimeout is how long umount2(2) may take. The mount of a network file
// system whose server does not answer may take forever.
const unmountTimeout = 30 * time.Second

// Unmount implements [System].
func (Kernel) Unmount(ctx context.Context, point string) error {
	ctx, cancel := context.WithTimeout(ctx, unmountTimeout)
	defer cancel()

	// Nothing can interrupt the call, so it may outlive ctx.
	done := make(chan error, 1)
	go func() { done <- unix.Unmount(point, unix.UMOUNT_NOFOLLOW) }()

	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
