package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/loam-os/loam/agent"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/agent/storage"
	"github.com/loam-os/loam/cmd/outcome"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/hint/redact"
)

func statusCommand() *cobra.Command {
	var file, format string
	var watch bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show what the node runs and how it is",
		Long: `status shows whether the node is well, what it runs, what it refused and why,
what happens next, where it gets its orders, and details. With --watch it goes on
until Ctrl-C: a terminal shows the page again and again, any other output gets the
rows that change.`,
		Example: "  loam status\n  loam status --watch\n  loam status -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			out := cmd.OutOrStdout()
			p := statusPrinter{
				out:    out,
				file:   file,
				format: format,
				size:   func() (columns, rows int) { return size(out) },
			}
			if file == status.Path {
				p.uptime = agent.Uptime
				p.now = time.Now
				p.storage = observeStorage
			}
			if !watch {
				return p.print()
			}

			ctx, stop := interruptible(cmd)
			defer stop()
			return p.watch(ctx)
		},
	}

	outcome.FormatFlag(cmd, &format, "table")
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "go on until Ctrl-C")
	cmd.Flags().StringVar(&file, "file", status.Path,
		"status `FILE` of the agent, or of another node")
	return cmd
}

// readStatus reads what an agent has left in a file.
func readStatus(file string) (status.Status, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) && file == status.Path {
		return status.Status{}, hint.With(fault.With(fmt.Errorf("%s: not there", file),
			fault.AgentNotRunning),
			"the agent writes it; see `systemctl status loam-agent`")
	}

	if err != nil {
		return status.Status{}, err
	}

	s, err := status.Parse(text)
	if err == nil && !hasPhase(text) {
		err = fault.With(errors.New("not a status: phase is missing"), fault.NotAStatus)
	}
	if err != nil {
		return s, fmt.Errorf("%s: %w", file, err)
	}

	return s, nil
}

// hasPhase reports whether a JSON object has the field that every agent writes.
func hasPhase(text []byte) bool {
	var s struct{ Phase *string }
	err := json.Unmarshal(text, &s)
	return err == nil && s.Phase != nil
}

// statusPrinter prints the status in a file.
type statusPrinter struct {
	out          io.Writer
	file, format string
	// size returns the size of the terminal, 0 rows if it cannot draw over what it
	// shows.
	size func() (columns, rows int)

	// uptime is the time since kernel start, now the time of day. The agent
	// writes the file only when something changes. Both are nil if the file is
	// of another node.
	uptime func() time.Duration
	now    func() time.Time
	// storage observes the room on this node; nil if the file is of another.
	storage func() []storage.Usage
}

// observeStorage observes the room on the file systems of this node.
func observeStorage() []storage.Usage {
	root, err := os.OpenRoot("/")
	if err != nil {
		return nil
	}
	defer root.Close()
	return storage.Observe(root)
}

// read returns the status as it is now, to be shown: without a password. The room is
// observed again: where there is none, the agent cannot write its status.
func (p statusPrinter) read() (status.Status, error) {
	s, err := readStatus(p.file)
	if p.storage != nil {
		s.Storage = storage.Decide(s.Storage, p.storage())
	}
	if err != nil {
		return s, withRoom(err, s.Storage)
	}
	s.Repository = redact.URLs(s.Repository)

	if p.uptime != nil {
		s.Uptime = status.Duration(p.uptime())
	}
	if p.storage != nil {
		s.Health, s.Reason = s.Assess()
	}
	return s, nil
}

// withRoom returns the error of a status that cannot be read, with the file
// systems that are full: the agent may not have been able to write it.
func withRoom(err error, short []status.FileSystem) error {
	for _, f := range short {
		if f.Full {
			return hint.With(fault.With(fmt.Errorf("%w; %s", err, f.Problem), f.Code), "%s", f.Hint)
		}
	}
	return err
}

func (p statusPrinter) print() error {
	s, err := p.read()
	if err != nil {
		return err
	}
	return p.write(s)
}

func (p statusPrinter) write(s status.Status) error {
	return outcome.Write(p.out, p.format, s, func() string { return s.Table(p.view()) })
}

// view is how the status is shown where lines are not few.
func (p statusPrinter) view() status.View {
	columns, _ := p.size()
	v := status.View{Width: columns}
	if p.now != nil {
		v.Now = p.now()
	}
	return v
}

// size returns the size of the terminal, 80 columns and 0 rows without a
// terminal. A dumb terminal has 0 rows, as it cannot draw over what it shows.
func size(out io.Writer) (columns, rows int) {
	f, ok := out.(*os.File)
	if !ok {
		return 80, 0
	}
	columns, rows, err := term.GetSize(int(f.Fd()))
	switch {
	case err != nil || columns == 0:
		return 80, 0
	case os.Getenv("TERM") == "dumb":
		return columns, 0
	}
	return columns, rows
}
