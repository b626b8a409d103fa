package damage

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/test/judge"
)

// damages is how many damages TestGenerated tries, shortDamages in short mode;
// LOAM_DAMAGES is another number.
const damages, shortDamages = 200, 40

// TestGenerated repairs generated damages. Each machine ends with its state, or
// says that it cannot be repaired, and what e2fsck removed is in the log.
func TestGenerated(t *testing.T) {
	count := judge.Pick(shortDamages, damages)
	if text := os.Getenv("LOAM_DAMAGES"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		count = n
	}

	partitions := []*Partition{NewPartition(t, false, nil), NewPartition(t, true, nil)}
	ends := map[string]int{}
	for seed := range count {
		p := partitions[seed%len(partitions)]
		d := New(p, uint64(seed))
		m := NewMachine(t, p)
		if err := d.DoFile(p, m.State); err != nil {
			t.Fatal(err)
		}

		end, err := m.Run(nil)
		ends[fmt.Sprintf("%s, %d restarts", end.State, end.Restarts)]++
		if err != nil {
			t.Errorf("%v: %v\n%s", d, err, m.Log())
			continue
		}

		checkEnd(t, d, p, m, end)
		if err := m.Remove(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d damages: %v", count, ends)
}

// checkEnd checks the judge's verdict and that no loss is silent.
func checkEnd(t *testing.T, d Damage, p *Partition, m *Machine, end End) {
	t.Helper()
	if end.State == status.RepairFailed {
		if end.Repair.Problem == "" || end.Restarts > 0 {
			t.Errorf("%v: %+v", d, end)
		}
		t.Logf("%v: %s", d, end.Repair.Problem)
		return
	}

	if !Mountable(t, m.State) {
		t.Errorf("%v: %s, and cannot be mounted\n%s", d, end.State, m.Log())
		return
	}

	isNamed := namedIn(m.Log())
	now := Files(t, m.State)
	for path, f := range p.Files {
		there, ok := now[path]
		if (!ok || there.Digest != f.Digest) && !isNamed(f, path) {
			t.Errorf("%v: %s (inode %d) is lost, and not in the log\n%s", d, path, f.Inode,
				m.Log())
			return
		}
	}
}

var numbersOfLog = regexp.MustCompile(`\d+`)

// namedIn returns a function that reports whether a log names a file, or a
// directory above it.
func namedIn(log string) func(f File, path string) bool {
	all := map[int64]bool{}
	for _, text := range numbersOfLog.FindAllString(log, -1) {
		n, _ := strconv.ParseInt(text, 10, 64)
		all[n] = true
	}

	return func(f File, path string) bool {
		isNamed := func(inode int64) bool { return all[inode] }
		return isNamed(f.Inode) || slices.ContainsFunc(f.Parents, isNamed) ||
			strings.Contains(log, path)
	}
}
