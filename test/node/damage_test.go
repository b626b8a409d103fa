package node

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// damaged is a machine whose raw disk was changed before it is switched on.
// It ends where it would restart.
func damaged(t *testing.T, change func(m *machine, disk *os.File)) *machine {
	b := open(t)
	m := b.flash(t, b.file(".raw"))
	m.config.Disk = filepath.Join(m.config.Dir, "flashed.raw")
	m.config.NoReboot = true
	m.tool("cp", "--sparse=always", b.file(".raw"), m.config.Disk)

	disk, err := os.OpenFile(m.config.Disk, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer disk.Close()

	change(m, disk)

	return m
}

// partition is the start of the first partition with the label, in bytes.
func (m *machine) partition(index int) int64 {
	for _, p := range m.build.manifest.Partitions {
		if p.Index == index {
			return p.Start
		}
	}
	m.t.Fatalf("no partition %d", index)
	return 0
}

// Indexes of the partitions, as partitions/*.conf orders them.
const (
	esp     = 1
	sigA    = 2
	verityA = 3
	rootA   = 4
	verityB = 6
	rootB   = 7
	state   = 8
)

func flip(t *testing.T, disk *os.File, at int64) {
	t.Helper()
	b := make([]byte, 1)
	if _, err := disk.ReadAt(b, at); err != nil {
		t.Fatal(err)
	}

	b[0] ^= 0x10
	if _, err := disk.WriteAt(b, at); err != nil {
		t.Fatal(err)
	}
}

var extent = regexp.MustCompile(`(?m)^\s*\d+:\s+\d+\.\.\s*\d+ \|\s+\d+ :\s+(\d+)\.\.`)

func TestFlippedByteNeverReachesARunningSystem(t *testing.T) {
	places := map[string]func(m *machine) int64{
		"in the superblock": func(*machine) int64 { return 1024 + 64 },
		"in systemd's program": func(m *machine) int64 {
			out := m.tool("dump.erofs", "-e", "--path=/usr/lib/systemd/systemd",
				m.build.file(".root"))
			found := extent.FindStringSubmatch(out)
			if found == nil {
				t.Fatalf("dump.erofs: %s", out)
			}

			at, err := strconv.ParseInt(found[1], 10, 64)
			if err != nil {
				t.Fatal(err)
			}

			return at + 100
		},
	}

	for name, place := range places {
		t.Run(name, func(t *testing.T) {
			m := damaged(t, func(m *machine, disk *os.File) {
				flip(t, disk, m.partition(rootA)+place(m))
			})

			n := m.on(t, nil)
			n.ended() // it restarts, which NoReboot turns into an end
			for _, l := range n.Console().Lines() {
				if strings.Contains(l.Text, "phase") {
					t.Errorf("the agent ran:\n%s", n.Console().Tail(30))
					break
				}
			}

			if !regexp.MustCompile(`is corrupted`).MatchString(n.Console().Tail(1000)) {
				t.Errorf("the console does not say why it restarted:\n%s", n.Console().Tail(30))
			}
		})
	}
}

func TestForeignDataOnTheStatePartitionStopsTheBootAndStays(t *testing.T) {
	foreign := []byte("an owner's photographs")
	m := damaged(t, func(m *machine, disk *os.File) {
		if _, err := disk.WriteAt(foreign, m.partition(state)); err != nil {
			t.Fatal(err)
		}
	})

	n := m.on(t, nil)
	n.expect(regexp.MustCompile(`cannot boot: .*holds unknown data`))
	n.expect(regexp.MustCompile(`hint: `))
	n.expect(regexp.MustCompile(`restarting in 10s`))
	n.ended()

	disk, err := os.Open(m.config.Disk)
	if err != nil {
		t.Fatal(err)
	}
	defer disk.Close()

	have := make([]byte, len(foreign))
	if _, err := disk.ReadAt(have, m.partition(state)); err != nil && err != io.EOF {
		t.Fatal(err)
	}
	if !bytes.Equal(have, foreign) {
		t.Errorf("the data is now %q", have)
	}
}
