package agent

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/netip"
	"os"
	"os/exec"
	"regexp"
	"testing"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/agent/boot"
	"github.com/loam-os/loam/agent/cluster/credentials"
	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/machine"
	"github.com/loam-os/loam/agent/network"
	"github.com/loam-os/loam/agent/networkd"
	"github.com/loam-os/loam/agent/plane"
	"github.com/loam-os/loam/agent/plane/pki"
	"github.com/loam-os/loam/agent/proxy"
	"github.com/loam-os/loam/agent/reset"
	"github.com/loam-os/loam/agent/source"
	"github.com/loam-os/loam/agent/upgrade"
	"github.com/loam-os/loam/agent/upgrade/records"
	"github.com/loam-os/loam/agent/volume"
	"github.com/loam-os/loam/test/judge"
)

// roomVariable is the empty directory that the part of the test in a mount
// namespace of its own mounts a small file system on.
const roomVariable = "LOAM_ROOM_DIR"

// TestEveryRecordWithoutRoom has a pod fill the state partition, or take its last
// inodes, before each record of upgrades, trials and renewals: what was there
// before stays, the error says why, and it is written when there is room again.
// With the spare room that the agent keeps, it is written at once.
func TestEveryRecordWithoutRoom(t *testing.T) {
	if dir := os.Getenv(roomVariable); dir != "" {
		withoutRoom(t, dir)
		return
	}
	if os.Getuid() != 0 {
		judge.Lacking(t, "needs root, to mount")
	}

	cmd := exec.Command("unshare", "--mount", "--propagation", "private", os.Args[0],
		"-test.run=^TestEveryRecordWithoutRoom$", "-test.v")
	cmd.Env = append(os.Environ(), roomVariable+"="+t.TempDir())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// recordStep writes a record, the nth one of its kind.
type recordStep struct {
	name string
	do   func(n *node, nth int) error
	// is returns what of it the node has, "" if it has nothing that it can use.
	is func(d *durable.Dir) string
}

var number = regexp.MustCompile("[0-9]+")

// ofNode is a step of the node itself, which writes to a file.
func ofNode(name, file string, do func(n *node, nth int) error) recordStep {
	return recordStep{
		name: name,
		do:   do,
		is: func(d *durable.Dir) string {
			text, err := d.Root().ReadFile(file)
			if err != nil {
				return ""
			}
			return number.FindString(string(text))
		},
	}
}

// upgradeRecord is a step that saves a record of upgrades.
func upgradeRecord(name string) recordStep {
	files := func(d *durable.Dir) records.Store { return stateOf{d} }
	return recordStep{
		name: "upgrade: " + name,
		do:   func(n *node, nth int) error { return records.Save(files(n.records()), name, nth) },
		is: func(d *durable.Dir) string {
			var nth int
			if err := records.Load(files(d), name, &nth); err != nil || nth == 0 {
				return ""
			}
			return fmt.Sprint(nth)
		},
	}
}

// stateOf are the records of upgrades below a root directory.
type stateOf struct{ dir *durable.Dir }

func (s stateOf) files() upgrade.Files { return upgrade.Files{Dir: s.dir} }

func (s stateOf) Read(name string) ([]byte, error) { return s.files().Read("var/lib/loam/" + name) }

func (s stateOf) Write(name string, data []byte) error {
	return s.files().Write("var/lib/loam/"+name, data)
}

func (s stateOf) Remove(name string) error { return s.files().Remove("var/lib/loam/" + name) }

// recordSteps are the records of upgrades, trials and renewals, but for those of
// an apply: apply.TestNoRoom.
func recordSteps(t *testing.T) []recordStep {
	var steps []recordStep
	for _, name := range []string{
		"upgrade.json", "upgrade-index.json", "upgrade-contents.json", "upgrade-last.json",
		"upgrade-failed.json", "upgrade-epoch.json", "upgrade-drill.json",
	} {
		steps = append(steps, upgradeRecord(name))
	}

	who := []credentials.Credentials{ownCertificate(t, 1), ownCertificate(t, 2), ownCertificate(t, 3)}
	steps = append(steps, recordStep{
		name: "renewal: the certificate of the agent",
		do: func(n *node, nth int) error {
			d := n.records()
			store := credentials.Of(d)
			return store.Save(credentials.Target{Server: "https://a"}, who[nth-1])
		},
		is: func(d *durable.Dir) string {
			have, ok := credentials.Of(d).Load()
			for i := range who {
				if ok && string(have.Certificate) == string(who[i].Certificate) {
					return fmt.Sprint(i + 1)
				}
			}
			return ""
		},
	})

	cluster, err := plane.Decode("cluster.yaml", []byte("apiVersion: loam.dev/v1alpha1\n"+
		"kind: Cluster\nname: plant-7\nkubernetes: 1.37.2\n"))
	if err != nil {
		t.Fatal(err)
	}
	leaves := pki.Leaves(cluster.Names("node-1"))
	year := func(nth int) time.Time { return built.AddDate(5*(nth-1), 0, 0) }
	steps = append(steps, recordStep{
		name: "renewal: the certificates of the own cluster",
		do: func(n *node, nth int) error {
			d := n.records()
			store := plane.NewStore(d)
			times := pki.Times{Built: built, Now: year(nth)}
			if err := store.Keys.Create("plant-7", times); err != nil &&
				!errors.Is(err, pki.ErrExists) {
				return err
			}
			_, err := store.Renew(cluster, "node-1", times)
			return err
		},
		is: func(d *durable.Dir) string {
			have := plane.NewStore(d).Certificates(cluster)
			if len(have) < len(leaves) {
				return ""
			}
			nth := 3
			for _, c := range have {
				for ; nth > 1 && c.NotAfter.Before(year(nth)); nth-- {
				}
			}
			return fmt.Sprint(nth)
		},
	})

	// A record of the own cluster, with a name for each number.
	of := func(nth int) plane.Record {
		r := cluster
		r.CertificateNames = []string{fmt.Sprint("name-", nth)}
		return r
	}
	number := func(r plane.Record, found bool, err error) string {
		for nth := range 4 {
			if found && err == nil && len(r.CertificateNames) > 0 &&
				r.CertificateNames[0] == fmt.Sprint("name-", nth) {
				return fmt.Sprint(nth)
			}
		}
		return ""
	}
	return append(steps,
		ofNode("the host name", boot.HostnameFile, func(n *node, nth int) error {
			return naming{Env: n.Env, records: n.records()}.set(fmt.Sprint(nth))
		}),
		ofNode("the proxy", proxy.File, func(n *node, nth int) error {
			return writeProxy(n.records(), fmt.Sprint(nth))
		}),
		recordStep{
			"the document of the machine",
			func(n *node, nth int) error {
				doc := source.Document{Serial: fmt.Sprint(nth)}
				return n.identity().Accept(doc, machine.Machine{}, nil)
			},
			func(d *durable.Dir) string {
				var a source.Accepted
				if _, err := durable.ReadJSON(d.Root().FS(), source.AcceptedName, &a); err != nil {
					return ""
				}
				return a.Serial
			},
		},
		recordStep{
			"own cluster: the record",
			func(n *node, nth int) error { return n.planeStore().WriteRecord(of(nth)) },
			func(d *durable.Dir) string { return number(plane.NewStore(d).Record()) },
		},
		recordStep{
			"own cluster: what runs",
			func(n *node, nth int) error { return n.planeStore().WriteApplied(of(nth)) },
			func(d *durable.Dir) string {
				r, err := plane.NewStore(d).Applied()
				if r == nil {
					return ""
				}
				return number(*r, true, err)
			},
		},
		recordStep{
			"own cluster: the address",
			func(n *node, nth int) error {
				d := n.records()
				if err := d.MkdirAll(plane.StateDirectory[1:]); err != nil {
					return err
				}
				return plane.NewStore(d).WriteAddress(netip.AddrFrom4([4]byte{192, 0, 2, byte(nth)}))
			},
			func(d *durable.Dir) string {
				address, err := plane.NewStore(d).Address()
				if err != nil || !address.IsValid() {
					return ""
				}
				return fmt.Sprint(address.As4()[3])
			},
		},
		recordStep{
			"the network",
			func(n *node, nth int) error {
				d := n.records()
				return networkd.Keep(d, network.Files{"a.network": fmt.Sprint(nth)})
			},
			func(d *durable.Dir) string {
				files, err := networkd.Kept(d.Root())
				if err != nil {
					return ""
				}
				return files["a.network"]
			},
		},
		recordStep{
			"the data volume",
			func(n *node, nth int) error {
				d := n.records()
				claim := volume.Claim{Serial: fmt.Sprint(nth)}
				return volume.Data.WriteRecord(d, volume.Record{Claim: claim, FileSystem: "ext4"})
			},
			func(d *durable.Dir) string {
				r, _, err := volume.Data.ReadRecord(d.Root().FS())
				if err != nil {
					return ""
				}
				return r.Claim.Serial
			},
		},
	)
}

// ownCertificate returns a key with a certificate of that serial number.
func ownCertificate(t *testing.T, serial int64) credentials.Credentials {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return credentials.Credentials{
		Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		Key:         pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private}),
	}
}

// tenants are programs that take room on the state partition.
type tenants struct {
	t    *testing.T
	root *os.Root
}

// take takes all of it, inodes or bytes.
func (p tenants) take(inodes bool) {
	p.t.Helper()
	if err := p.root.MkdirAll("pods", 0o755); err != nil {
		p.t.Fatal(err)
	}
	if !inodes {
		p.fill()
		return
	}
	for i := 0; ; i++ {
		f, err := p.root.Create(fmt.Sprint("pods/", i))
		if errors.Is(err, unix.ENOSPC) {
			return
		}
		if err != nil {
			p.t.Fatal(err)
		}
		f.Close()
	}
}

// fill writes a file until there is no page left.
func (p tenants) fill() {
	p.t.Helper()
	f, err := p.root.Create("pods/large")
	if err != nil {
		p.t.Fatal(err)
	}
	defer f.Close()
	for {
		if _, err := f.Write(make([]byte, 4096)); errors.Is(err, unix.ENOSPC) {
			return
		} else if err != nil {
			p.t.Fatal(err)
		}
	}
}

// give gives it back.
func (p tenants) give() {
	p.t.Helper()
	if err := p.root.RemoveAll("pods"); err != nil {
		p.t.Fatal(err)
	}
}

func withoutRoom(t *testing.T, dir string) {
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=4m,nr_inodes=400"); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(dir, unix.MNT_DETACH)
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := root.MkdirAll("var/lib/loam", 0o755); err != nil {
		t.Fatal(err)
	}

	p := tenants{t, root}
	spare := durable.NewSpare(root, "var/lib/loam/spare", 256<<10)
	for _, s := range recordSteps(t) {
		for _, inodes := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, inodes %t", s.name, inodes), func(t *testing.T) {
				d := durable.New(root, nil)
				n := &node{root: root}
				n.SetHostname = func(string) error { return nil }
				if err := s.do(n, 1); err != nil || s.is(d) != "1" {
					t.Fatalf("%q, %v", s.is(d), err)
				}

				p.take(inodes)
				err := s.do(n, 2)
				if !errors.Is(err, unix.ENOSPC) || s.is(d) != "1" {
					t.Errorf("without room: %q, %v", s.is(d), err)
				}
				p.give()
				if err := s.do(n, 2); err != nil || s.is(d) != "2" {
					t.Errorf("with room again: %q, %v", s.is(d), err)
				}

				if kept, err := spare.Keep(); !kept || err != nil {
					t.Fatalf("spare room: %t, %v", kept, err)
				}
				p.take(inodes)
				n.spare = spare
				if err := s.do(n, 3); err != nil || s.is(d) != "3" {
					t.Errorf("with spare room: %q, %v", s.is(d), err)
				}
				p.give()
				if err := root.RemoveAll("var/lib/loam"); err != nil {
					t.Fatal(err)
				}
				if err := root.MkdirAll("var/lib/loam", 0o755); err != nil {
					t.Fatal(err)
				}
			})
		}
	}

	t.Run("the agent gives up its spare room", func(t *testing.T) {
		for _, test := range []struct {
			name, file string
			record     func(n *node) error
		}{
			{"for machine.yaml", source.AcceptedName, func(n *node) error {
				doc := source.Document{Kind: source.FromDrive, Text: []byte("a")}
				return n.identity().Accept(doc, machine.Machine{}, nil)
			}},
			{"for no machine.yaml", source.AcceptedName, func(n *node) error {
				n.identity().CloseDrives()
				return nil
			}},
			{"for a reset", reset.RecordName, func(n *node) error {
				return (&life{node: n}).newReset().Begin()
			}},
		} {
			if kept, err := spare.Keep(); !kept || err != nil {
				t.Fatalf("spare room: %t, %v", kept, err)
			}
			n := &node{Env: Env{Root: dir, Now: time.Now, Log: zap.NewNop()}, root: root, spare: spare}
			p.take(false)
			err := test.record(n)
			p.give()
			if _, missing := root.Stat(test.file); err != nil || missing != nil {
				t.Errorf("%s: %v, %v, warnings %q", test.name, err, missing, n.status.Warnings)
			}
			if err := root.RemoveAll(test.file); err != nil {
				t.Fatal(err)
			}
		}
	})
}
