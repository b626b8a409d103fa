package boot

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/loam-os/loam/agent/crypt"
	"github.com/loam-os/loam/agent/tpm"
	"github.com/loam-os/loam/partitions/device"
	"github.com/loam-os/loam/partitions/ext4"
	"github.com/loam-os/loam/partitions/luks"
)

func TestAPartitionThatAsksToBeEncrypted(t *testing.T) {
	for _, mode := range []crypt.Mode{crypt.None, crypt.TPM, crypt.Key} {
		d := device.NewMemory(4 * mib)
		mark := crypt.Mark{Encrypt: mode, Reset: `{"done":true}`}
		_, _ = d.WriteAt(mark.Bytes(), 0)
		c := ObserveState(d)
		if c.Filesystem != FilesystemEmpty || c.Mark != mark {
			t.Errorf("%q is %+v", mark.Bytes(), c)
		}

		got, err := Decide(with(machine(), 6, func(is *Content) {
			is.Filesystem = c.Filesystem
			is.Mark = c.Mark
		}))
		if err != nil || !got.State.Format || got.State.Mark != mark || got.State.Locked {
			t.Errorf("%q: %+v, %v", mode, got.State, err)
		}
	}
}

// noTPM is a TPM that seals nothing.
type noTPM struct{}

func (noTPM) Seal([]byte, *rsa.PublicKey) (tpm.Sealed, error) {
	return tpm.Sealed{}, os.ErrNotExist
}

func (noTPM) Unseal(tpm.Sealed) ([]byte, error) { return nil, os.ErrNotExist }

// TestAContainerIsNeverFormatted: whatever was on the partition before, such as
// the copies of an old superblock.
func TestAContainerIsNeverFormatted(t *testing.T) {
	d := device.NewMemory(20 * mib)
	_, _ = d.WriteAt(crypt.Mark{Encrypt: crypt.Key}.Bytes(), 0)
	m := crypt.Machine{
		TPM:    noTPM{},
		Random: rand.Reader,
		Given:  func() []crypt.Given { return []crypt.Given{{Place: "here", Key: []byte("key")}} },
	}
	if _, err := m.Format(d, crypt.Mark{Encrypt: crypt.Key}); err != nil {
		t.Fatal(err)
	}
	if c := ObserveState(d); c.Filesystem != FilesystemLUKS || c.Damage() != nil {
		t.Errorf("%+v", c)
	}

	got, err := Decide(with(machine(), 6, func(c *Content) { c.Filesystem = FilesystemLUKS }))
	if err != nil || !got.State.Locked || got.State.Format || got.State.Repair || got.State.Grow {
		t.Errorf("%+v, %v", got.State, err)
	}
}

// TestADamagedContainer is opened by the second copy of its header, or stays as
// it is, even where a reset is allowed (agent/repair).
func TestADamagedContainer(t *testing.T) {
	whole := device.NewMemory(20 * mib)
	m := crypt.Machine{
		TPM:    noTPM{},
		Random: rand.Reader,
		Given:  func() []crypt.Given { return []crypt.Given{{Place: "here", Key: []byte("key")}} },
	}
	if _, err := m.Format(whole, crypt.Mark{Encrypt: crypt.Key}); err != nil {
		t.Fatal(err)
	}

	for _, tt := range []struct {
		name   string
		damage []byte
		at     int64
		locked bool
	}{
		{name: "the first copy is zero", damage: make([]byte, 16<<10)},
		{name: "the first copy has a wrong checksum", damage: []byte("x"), at: 5000},
		{name: "the second copy is zero", damage: make([]byte, 16<<10), at: 16 << 10},
		{name: "both copies are zero", damage: make([]byte, 32<<10), locked: true},
		{name: "the first MiB is zero", damage: make([]byte, mib), locked: true},
		{
			name:   "the first MiB is garbage",
			damage: bytes.Repeat([]byte{0xa5}, mib),
			locked: true,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := whole.Clone()
			if _, err := d.WriteAt(tt.damage, tt.at); err != nil {
				t.Fatal(err)
			}

			c := ObserveState(d)
			damage := c.Damage()
			if c.Filesystem != FilesystemLUKS || tt.locked != (damage != nil) {
				t.Fatalf("%+v", c)
			}
			if tt.locked && (!damage.Locked || damage.Ext4) {
				t.Errorf("%+v", *damage)
			}
		})
	}
}

// TestALockedContainer is not repaired as a file system.
func TestALockedContainer(t *testing.T) {
	s := State{Locked: true}
	s.failed(errors.New("no key opens it"))
	if want := (Damage{Reason: "no key opens it", Locked: true}); *s.Damage != want {
		t.Errorf("%+v, want %+v", *s.Damage, want)
	}
}

// TestAPlannedContainer: what is in the container decides once it is open.
func TestAPlannedContainer(t *testing.T) {
	for filesystem, want := range map[Filesystem]State{
		FilesystemEmpty:   {Locked: true, Size: 100 * mib, Format: true, Grow: true},
		FilesystemExt4:    {Locked: true, Size: 100 * mib, Grow: true},
		FilesystemCorrupt: {Locked: true, Size: 100 * mib, Repair: true, Grow: true},
	} {
		s := State{Locked: true, Size: 100 * mib}
		s.plan(Content{Filesystem: filesystem, FilesystemSize: 50 * mib})
		if s != want {
			t.Errorf("%s: %+v, want %+v", filesystem, s, want)
		}
	}

	damaged := State{Size: 100 * mib}
	damaged.plan(Content{Filesystem: FilesystemDamaged, Problem: "wrong checksum"})
	damaged.failed(errors.New("wrong checksum"))
	if want := (Damage{Reason: "wrong checksum", Ext4: true}); *damaged.Damage != want {
		t.Errorf("%+v, want %+v", *damaged.Damage, want)
	}
}

func TestTheRequestToEncrypt(t *testing.T) {
	for text, want := range map[string]crypt.Mode{
		"tpm\n":    crypt.TPM,
		"key":      crypt.Key,
		"":         crypt.None,
		"recovery": crypt.None,
	} {
		root := t.TempDir()
		name := filepath.Join(root, EncryptName)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := requested(root); got != want {
			t.Errorf("%q requests %q", text, got)
		}
	}
	if got := requested(t.TempDir()); got != crypt.None {
		t.Errorf("no file requests %q", got)
	}
}

// TestAMarkedPartition has nothing left that looks like the file system before.
func TestAMarkedPartition(t *testing.T) {
	name := filepath.Join(t.TempDir(), "partition")
	old := bytes.Repeat([]byte("old"), 2*mib/3)
	if err := os.WriteFile(name, old, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := mark(name, crypt.Mark{Encrypt: crypt.TPM}); err != nil {
		t.Fatal(err)
	}

	got, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if crypt.ReadMark(got).Encrypt != crypt.TPM || !bytes.Equal(got[4096:], old[4096:]) ||
		bytes.Contains(got[ext4.SuperblockOffset:4096], []byte("old")) {
		t.Errorf("the partition begins with %q", got[:64])
	}
}

// TestADiscardSparesTheMark: after a power cut at any time, the partition still asks
// for a container, with the record of the reset. A large partition of a slow disk is
// discarded in pieces, and the time limit of /init begins again with each.
func TestADiscardSparesTheMark(t *testing.T) {
	mark := crypt.Mark{Encrypt: crypt.TPM, Reset: `{"done":true}`}
	for _, size := range []int64{mib / 2, mib, 20 * mib, gib, 3*gib + 7*mib} {
		t.Run(fmt.Sprintf("%d MiB", size/mib), func(t *testing.T) {
			d := device.NewMemory(size)
			if err := mark.Write(d); err != nil {
				t.Fatal(err)
			}

			alive, pieces := 0, 0
			end := int64(discardStart)
			err := discardPieces(size, func() { alive++ }, func(start, length int64) error {
				pieces++
				if start != end || length <= 0 || length > gib || alive != pieces {
					t.Errorf("piece %d has %d bytes at %d, want it at %d; %d signs of life", pieces,
						length, start, end, alive)
				}
				end = start + length

				zeros := make([]byte, min(length, mib))
				if _, err := d.WriteAt(zeros, start); err != nil {
					t.Error(err)
				}
				if c := ObserveState(d); c.Filesystem != FilesystemEmpty || c.Mark != mark {
					t.Errorf("after piece %d: %+v", pieces, c)
				}
				return nil
			})
			if err != nil || end != max(size, discardStart) {
				t.Errorf("discarded up to %d of %d, %v", end, size, err)
			}
		})
	}
}

// TestABusyTPMIsAskedAgain: a TPM that is too slow once must not leave a node
// without its state, or with the previous key of the TPM.
func TestABusyTPMIsAskedAgain(t *testing.T) {
	busy := errors.New("timer expired")
	for _, tt := range []struct {
		name  string
		fails int
		want  error
		after time.Duration
	}{
		{name: "it answers"},
		{name: "it is busy", fails: 3, after: 3 * keyPause},
		{name: "it is broken", fails: 100, want: busy, after: keyTimeout + keyPause},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				calls := 0
				await := func(until time.Time) bool {
					time.Sleep(time.Until(until))
					return false
				}
				err := retry(await, func(first bool) error {
					calls++
					if first != (calls == 1) {
						t.Errorf("call %d is the first: %t", calls, first)
					}
					if calls <= tt.fails {
						return busy
					}
					return nil
				})
				if err != tt.want || time.Since(began) != tt.after {
					t.Errorf("%v after %s, want %v after %s", err, time.Since(began), tt.want,
						tt.after)
				}
			})
		})
	}
}

// TestANewStateHasTheSlotOfItsRecoveryKey, for containers that are made later.
func TestANewStateHasTheSlotOfItsRecoveryKey(t *testing.T) {
	root := t.TempDir()
	name := filepath.Join(root, crypt.RecoveryName)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := recordRecovery(root, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(name); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a new container: %v", err)
	}

	slot, err := luks.Prepare([]byte("recovery"), luks.ForKeys(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if err := recordRecovery(root, &slot); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(name)
	if err != nil || bytes.Contains(text, []byte("recovery")) {
		t.Errorf("it has %q, %v", text, err)
	}
	if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}

// TestANewStateBeginsWithTheReset: otherwise the node would follow machine.yaml
// again.
func TestANewStateBeginsWithTheReset(t *testing.T) {
	root := t.TempDir()
	if err := recordReset(root, ""); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(root, ResetName)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(name); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a reset: %v", err)
	}

	if err := recordReset(root, `{"done":true}`); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(name); string(got) != `{"done":true}` {
		t.Errorf("it has %q, %v", got, err)
	}
}
