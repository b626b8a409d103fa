package wear

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/block"
	"github.com/loam-os/loam/agent/status"
)

const (
	// firstAfter leaves the start of the node to what it is for.
	firstAfter = time.Minute
	// interval is between two looks: wear takes weeks.
	interval = time.Hour
	// answerTime is how long a disk may take to answer.
	answerTime = 30 * time.Second
)

// Watch looks at the disks of the machine with this root directory, with /sys,
// every hour until ctx ends, and sends what is known of each. Nothing waits for
// it: a disk that does not answer, and whose driver cannot be told to give up,
// ends the looking and not the agent.
func Watch(ctx context.Context, root fs.FS, log *zap.Logger) <-chan []status.Disk {
	found := make(chan []status.Disk)
	next := time.NewTimer(firstAfter)
	go func() {
		defer next.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-next.C:
			}

			readings, err := Observe(ctx, root)
			if err != nil && ctx.Err() == nil {
				log.Warn("find out how worn the disks are", zap.Error(err))
			}

			select {
			case <-ctx.Done():
				return
			case found <- Decide(readings):
			}
			next.Reset(interval)
		}
	}()
	return found
}

// Observe asks each disk of this machine. The error is of the disks that did not
// answer, beside those that did. root has /sys.
func Observe(ctx context.Context, root fs.FS) ([]Reading, error) {
	disks, err := block.List(root, block.Loop, block.RAM, block.ZRAM, block.Mapped)
	if err != nil {
		return nil, err
	}

	var readings []Reading
	var errs []error
	for _, d := range disks {
		r, says, err := observe(ctx, root, d)
		switch {
		case err != nil:
			errs = append(errs, err)
		case says:
			readings = append(readings, r)
		}
	}
	return readings, errors.Join(errs...)
}

// asked are the kinds of disks that smartctl knows.
var asked = []block.Kind{block.NVMe, block.SCSI, block.USB}

func observe(ctx context.Context, root fs.FS, d block.Disk) (r Reading, says bool, err error) {
	switch {
	case d.Size == 0, d.Hidden, d.Network != "":
		return r, false, nil
	case d.Kind == block.MMC:
		r, says = readEMMC(root, d.Name)
		return r, says, nil
	case !slices.Contains(asked, d.Kind):
		return r, false, nil
	}

	text, err := ask(ctx, d.Name)
	if err != nil {
		return r, false, err
	}
	return parse(d.Name, text)
}

// ask returns what smartctl prints about a disk.
func ask(ctx context.Context, name string) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, answerTime,
		fmt.Errorf("the disk has not answered for %s", answerTime))
	defer cancel()

	out, err := exec.CommandContext(ctx, "smartctl", "--json=c", "--info", "--health",
		"--attributes", "--log=devstat", "--log=ssd", block.Node(name)).Output()
	// Its status says how the disk is, too (smartctl(8), EXIT STATUS): what it
	// printed counts.
	_, ended := errors.AsType[*exec.ExitError](err)
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("smartctl %s: %w", name, context.Cause(ctx))
	case err != nil && !ended:
		return nil, fmt.Errorf("smartctl %s: %w", name, err)
	}
	return out, nil
}
