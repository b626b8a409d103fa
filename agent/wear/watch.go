package wear

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
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
	// killTime is how long smartctl may take to end when it is killed. It cannot
	// end while the driver of its disk waits.
	killTime = 5 * time.Second
	// maxAnswer is how much smartctl may print, in bytes: fifty times what it
	// prints of the disks that say most.
	maxAnswer = 4 << 20
)

// Watch looks at the disks of the machine with this root directory, with /sys,
// every hour until ctx ends, and sends what is known of each. before is what an
// earlier run of the agent in this boot knew. Nothing waits for a disk that does
// not answer.
func Watch(
	ctx context.Context, root fs.FS, before []status.Disk, log *zap.Logger,
) <-chan []status.Disk {
	found := make(chan []status.Disk)
	next := time.NewTimer(firstAfter)
	o := NewObserver(root, before)
	go func() {
		defer next.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-next.C:
			}

			disks, err := o.Observe(ctx)
			if err != nil && ctx.Err() == nil {
				log.Warn("find out how worn the disks are", zap.Error(err))
			}

			select {
			case <-ctx.Done():
				return
			case found <- disks:
			}
			next.Reset(interval)
		}
	}()
	return found
}

// Observer asks the disks of a machine, and remembers what they said.
type Observer struct {
	root fs.FS
	ask  func(ctx context.Context, name string) ([]byte, error)

	// last has what is known of each disk.
	last map[string]status.Disk
	// silent has the disks whose driver waits still: a disk is not asked again
	// before the channel has a value.
	silent map[string]<-chan answer
}

type answer struct {
	text []byte
	err  error
}

// NewObserver returns an Observer of the machine with this root directory, which
// has /sys. before is what is known of its disks.
func NewObserver(root fs.FS, before []status.Disk) *Observer {
	last := map[string]status.Disk{}
	for _, d := range before {
		last[d.Name] = d
	}
	return &Observer{
		root:   root,
		ask:    ask,
		last:   last,
		silent: map[string]<-chan answer{},
	}
}

// Observe asks each disk of the machine, and returns what is known of those that
// say something, never nil. The error is about the disks that did not answer. Of
// these it returns what they said before, if they did: a disk that fails must not
// be well again because it no longer answers.
func (o *Observer) Observe(ctx context.Context) ([]status.Disk, error) {
	disks, err := block.List(o.root, block.Loop, block.RAM, block.ZRAM, block.Mapped)
	if err != nil {
		return o.known(), err
	}

	var errs []error
	now := map[string]status.Disk{}
	for _, d := range disks {
		r, says, err := o.observe(ctx, d)
		disk := decide(r)
		if err != nil {
			disk, says = o.last[d.Name]
		}
		if err != nil && (says || !errors.Is(err, errNotOpened)) {
			errs = append(errs, err)
		}
		if says {
			now[d.Name] = disk
		}
	}
	o.last = now
	return o.known(), errors.Join(errs...)
}

// known returns what is known of all disks, by their names.
func (o *Observer) known() []status.Disk {
	known := []status.Disk{}
	for _, name := range slices.Sorted(maps.Keys(o.last)) {
		known = append(known, o.last[name])
	}
	return known
}

// asked are the kinds of disks that smartctl knows.
var asked = []block.Kind{block.NVMe, block.SCSI, block.USB}

func (o *Observer) observe(
	ctx context.Context, d block.Disk,
) (r Reading, says bool, err error) {
	switch {
	case d.Size == 0, d.Hidden, d.Network != "":
		return r, false, nil
	case d.Kind == block.MMC:
		r, says = readEMMC(o.root, d.Name)
		return r, says, nil
	case !slices.Contains(asked, d.Kind):
		return r, false, nil
	}

	text, err := o.answerOf(ctx, d.Name)
	if err != nil {
		return r, false, err
	}
	return parse(d.Name, text)
}

// answerOf asks a disk, and does not wait longer than it takes to kill smartctl.
func (o *Observer) answerOf(ctx context.Context, name string) ([]byte, error) {
	if before := o.silent[name]; before != nil {
		select {
		case <-before: // It is too old to count.
			delete(o.silent, name)
		default:
			return nil, fmt.Errorf("smartctl %s: the disk has not answered since an earlier look", name)
		}
	}

	done := make(chan answer, 1)
	go func() {
		text, err := o.ask(ctx, name)
		done <- answer{text, err}
	}()

	timer := time.NewTimer(answerTime + 2*killTime)
	defer timer.Stop()
	select {
	case a := <-done:
		return a.text, a.err
	case <-timer.C:
		o.silent[name] = done
		return nil, fmt.Errorf("smartctl %s: the disk does not answer, and smartctl cannot be ended",
			name)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// ask returns what smartctl prints about a disk.
func ask(ctx context.Context, name string) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, answerTime,
		fmt.Errorf("the disk has not answered for %s", answerTime))
	defer cancel()

	out := &bounded{}
	cmd := exec.CommandContext(ctx, "smartctl", "--json=c", "--info", "--health",
		"--attributes", "--log=devstat", "--log=ssd", block.Node(name))
	cmd.Stdout = out
	cmd.WaitDelay = killTime
	err := cmd.Run()

	exited, ended := errors.AsType[*exec.ExitError](err)
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("smartctl %s: %w", name, context.Cause(ctx))
	case out.more:
		return nil, fmt.Errorf("smartctl %s: it prints more than %d MiB", name, maxAnswer>>20)
	case err != nil && !ended:
		return nil, fmt.Errorf("smartctl %s: %w", name, err)
	case ended && !exited.Exited():
		return nil, fmt.Errorf("smartctl %s: %w", name, err)
	case ended && exited.ExitCode()&notOpened != 0:
		return nil, fmt.Errorf("smartctl %s: %w", name, errNotOpened)
	}
	// The rest of the status says how the disk is: what was printed has that.
	return out.text.Bytes(), nil
}

// errNotOpened is news only of a disk that has answered before: smartctl does not
// know the disks behind some RAID controllers.
var errNotOpened = errors.New("the disk cannot be opened")

// notOpened is the bit of smartctl's exit status for a disk that cannot be
// opened, or does not say what it is (smartctl(8), EXIT STATUS).
const notOpened = 1 << 1

// bounded keeps maxAnswer bytes of what is written to it.
type bounded struct {
	text bytes.Buffer
	more bool
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.text.Len()+len(p) > maxAnswer {
		b.more = true
		return len(p), nil
	}
	return b.text.Write(p)
}
