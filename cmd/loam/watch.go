package main

import (
	"context"
	"fmt"
	"io"
	"reflect"
	"time"

	"github.com/loam-os/loam/agent/status"
)

// watch prints the status until ctx ends, which is no error. On a terminal it
// draws the page again and again, as it counts down. Elsewhere, and on a terminal
// that is too small for a page, it prints the page, and then what changes.
func (p statusPrinter) watch(ctx context.Context) error {
	s, err := p.read()
	if err != nil {
		return err
	}
	if !p.canDraw() {
		if err := p.write(s); err != nil {
			return err
		}
	}

	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	last := s
	for {
		if p.canDraw() {
			err = p.draw(s, err)
		} else {
			err = p.writeChanges(s, last)
		}
		if err != nil {
			return err
		}
		last = s

		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}

		// The agent may be restarting: what was read last is shown until it is
		// back.
		s, err = p.read()
		if err != nil {
			s = last
		}
	}
}

// canDraw reports whether a page can be drawn over what is on the terminal. It is
// asked again for each page: the window may have another size now.
func (p statusPrinter) canDraw() bool {
	columns, rows := p.size()
	return p.format == "table" && columns > status.MinWidth && rows >= status.MinLines+frame
}

// frame is how many lines of the terminal are not for the page: the one for a
// problem, and the last one, so that nothing scrolls.
const frame = 2

// draw draws the page over what is on the terminal. problem is why the status
// could not be read again.
func (p statusPrinter) draw(s status.Status, problem error) error {
	columns, rows := p.size()
	view := p.view()
	view.Width = columns - 1 // The cursor stays in the line that it ends.
	view.Lines = rows - frame
	page := s.Table(view)
	if problem != nil {
		page += status.Wrap(problem.Error(), view.Width)[0] + "\n"
	}
	_, err := io.WriteString(p.out, status.InPlace(page))
	return err
}

// writeChanges writes what is in s and was not in last.
func (p statusPrinter) writeChanges(s, last status.Status) error {
	if isSame(s, last) {
		return nil
	}
	if p.format != "table" {
		return p.write(s)
	}

	// Countdowns are counted from the last change: a second that passes changes
	// nothing.
	view := p.view()
	view.Now = time.Time{}
	last.Uptime = s.Uptime
	changes := s.Changes(last, view)
	if changes == "" {
		return nil
	}
	at := ""
	if p.now != nil {
		at = p.now().UTC().Format(status.Clock)
	}
	_, err := fmt.Fprintf(p.out, "%s\n%s", at, changes)
	return err
}

// isSame reports whether nothing has happened between two statuses.
func isSame(s, last status.Status) bool {
	last.Uptime = s.Uptime
	last.AgentRSS = s.AgentRSS
	return reflect.DeepEqual(s, last)
}
