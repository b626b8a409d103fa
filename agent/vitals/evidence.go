package vitals

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/loam-os/loam/agent/journal"
	"github.com/loam-os/loam/agent/printable"
	"github.com/loam-os/loam/agent/upgrade"
)

// evidenceLines is how many lines are kept of each log of a failed boot.
const evidenceLines = 12

// maxPanic is how much is read of a kernel's log in pstore, in bytes: more than a
// kernel writes.
const maxPanic = 1 << 20

// bootLog is a log that a boot before this one has left.
type bootLog struct {
	// boot is the kernel's ID of that boot, "" if it is not known. at is when
	// the log was written, zero if that is not known.
	boot string
	at   time.Time
	text string
}

// Evidence returns what the boots of a system that failed have left: the end of
// the kernel's log of a panic, and of the journal of the boot before this one.
func Evidence(ctx context.Context, j upgrade.Journal) []string {
	ctx, cancel := context.WithTimeout(ctx, journal.ReadTimeout)
	defer cancel()
	return evidence(append(panics(), journalBefore(ctx)), j)
}

// evidence returns the last lines of the logs that boots of the upgrade's
// target have left, and of no others.
func evidence(logs []bootLog, j upgrade.Journal) []string {
	var all []string
	for _, log := range logs {
		older := !log.at.IsZero() && log.at.Before(j.Began)
		if !older && !slices.Contains(j.FromBoots, log.boot) {
			all = append(all, last(log.text, evidenceLines)...)
		}
	}
	return all
}

// panics returns the kernel's logs in pstore.
func panics() []bootLog {
	var logs []bootLog
	dumps, _ := filepath.Glob("/sys/fs/pstore/dmesg-*")
	for _, name := range dumps {
		info, err := os.Stat(name)
		if err != nil {
			continue
		}
		if text, err := begin(name); err == nil {
			logs = append(logs, bootLog{at: info.ModTime(), text: string(text)})
		}
	}
	return logs
}

// begin returns the begin of a file: the firmware says how large it is.
func begin(name string) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, maxPanic))
}

// journalBefore returns the journal of the boot before this one, zero if there is
// none.
func journalBefore(ctx context.Context) bootLog {
	id := journal.BootID(ctx, "", -1)
	if id == "" {
		return bootLog{}
	}
	lines := journal.Tail(ctx, journal.Query{
		Boot:     -1,
		Priority: "warning",
		Lines:    evidenceLines,
	})
	return bootLog{boot: kernelID(id), text: strings.Join(lines, "\n")}
}

// kernelID returns a boot ID as the kernel writes it: journald leaves out the
// hyphens (systemd.journal-fields(7)).
func kernelID(id string) string {
	if len(id) != 32 {
		return id
	}
	return strings.Join([]string{id[:8], id[8:12], id[12:16], id[16:20], id[20:]}, "-")
}

// last returns the last lines of a text.
func last(text string, n int) []string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if len(lines) == 1 && lines[0] == "" {
		return nil
	}
	lines = lines[max(0, len(lines)-n):]
	for i, line := range lines {
		lines[i] = printable.Line(line, 200)
	}
	return lines
}
