package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/loam-os/loam/agent/volume"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

// word is what the operator must type to overwrite a disk: its serial number,
// or its node if it has no serial number.
func word(d volume.Disk) string { return cmp.Or(d.Serial, d.Device) }

// mismatch says why the answer said does not let a disk be overwritten. all are the
// disks of this machine, among which said may name another.
func mismatch(d volume.Disk, said string, all []volume.Disk) error {
	what := "serial number"
	if d.Serial == "" {
		what = "device, as it has no serial number,"
	}
	err := fault.With(fmt.Errorf("%s: its %s is not %q: nothing was written", d.Device, what, said),
		fault.ConfirmationNeeded)

	// No hint has the right word alone, to paste without a look at the disk.
	other := slices.IndexFunc(all, func(o volume.Disk) bool {
		return o.Device != d.Device && (o.Serial == said || o.Device == said)
	})
	switch {
	case other >= 0:
		return hint.With(err, "%s is another disk: %s; this one is %s: which of them is meant?",
			said, identify(all[other]), identify(d))
	case said == d.Device:
		return hint.With(err,
			"another disk may be %s after a restart, so the serial number is asked for; this one is %s",
			d.Device, identify(d))
	}
	return hint.With(err, "this disk is %s: is it the disk to lose? if not, name another as DEVICE",
		identify(d))
}

// identify says which disk it is, for somebody who looks at its label.
func identify(d volume.Disk) string {
	serial := "without a serial number"
	if d.Serial != "" {
		serial = "serial number " + d.Serial
	}
	return fmt.Sprintf("%s (%s, %s, %s)", d.Device, cmp.Or(d.Model, "unknown model"),
		volume.FormatSize(d.Size), serial)
}

// confirm asks the operator to name the disk.
func (f *flashing) confirm(ctx context.Context, d volume.Disk) error {
	said := f.wipe
	if said == "" {
		fmt.Fprintf(f.out, "All of it is lost. Type %s to go on: ", word(d))
		line, err := f.answer(ctx)
		if errors.Is(err, context.Canceled) {
			fmt.Fprintln(f.out)
			return fmt.Errorf("%s: interrupted at the question: nothing was written", d.Device)
		}
		if errors.Is(err, io.EOF) && line == "" {
			fmt.Fprintln(f.out) // The prompt has no end of line.
			return hint.With(
				fault.With(fmt.Errorf("%s: the input ended at the question: nothing was written", d.Device),
					fault.ConfirmationNeeded),
				"without a terminal, answer with --yes-wipe %s", word(d))
		}

		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}

		said = strings.TrimSpace(line)
	}

	if said != word(d) {
		all, _ := volume.Observe(machineHere()) // Best effort, for the hint.
		return mismatch(d, said, all)
	}

	return nil
}

// answer returns the line that is typed, or the error of ctx. Nothing ends a read
// of a terminal: its goroutine ends with the program then.
func (f *flashing) answer(ctx context.Context) (line string, err error) {
	read := make(chan struct{})
	var typed string
	var failed error
	go func() {
		defer close(read)
		typed, failed = bufio.NewReader(f.in).ReadString('\n')
	}()

	select {
	case <-read:
		return typed, failed
	case <-ctx.Done():
		return "", ctx.Err()
	}
}
