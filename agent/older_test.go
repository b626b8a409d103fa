package agent

import (
	"context"
	"crypto/ed25519"
	"encoding/pem"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/boot"
	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/identity"
	"github.com/loam-os/loam/agent/inplace"
	"github.com/loam-os/loam/agent/networkd"
	"github.com/loam-os/loam/agent/reset"
	"github.com/loam-os/loam/agent/source"
	"github.com/loam-os/loam/agent/trust"
	"github.com/loam-os/loam/agent/upgrade"
	"github.com/loam-os/loam/agent/volume"
	"github.com/loam-os/loam/test/files"
	"github.com/loam-os/loam/test/keys"
)

// ofVersion gives the node the state that an older version left
// (apply/testdata/older), with its third generation.
func (n *testNode) ofVersion(t *testing.T, version string) {
	t.Helper()
	out, err := exec.Command("tar", "-C", n.Root, "-xzf",
		"apply/testdata/older/"+version+".tar.gz").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	n.runsVersion("9.9.9")
	if !n.identity().Configured() {
		t.Fatal("the older version's generation does not count")
	}
}

// TestTheRecordsOfAnOlderVersion are read, each of them.
func TestTheRecordsOfAnOlderVersion(t *testing.T) {
	a, b := strings.Repeat("a", 64), strings.Repeat("b", 64)
	for _, version := range []string{"aa99b7b", "18a045b"} {
		t.Run(version, func(t *testing.T) {
			n := unidentified(t)
			n.ofVersion(t, version)

			if name, err := n.root.ReadFile(boot.HostnameFile); err != nil || string(name) != "node-1\n" {
				t.Errorf("host name %q, %v", name, err)
			}
			files, err := networkd.Kept(n.root)
			if err != nil || !strings.Contains(files["10-lan.network"], "DHCP=yes") {
				t.Errorf("network %v, %v", files, err)
			}
			disk, ok, err := volume.Data.ReadRecord(n.root.FS())
			if err != nil || !ok || disk.Claim.Serial != "S1" || !disk.Made || disk.FileSystem != "ext4" {
				t.Errorf("data volume %+v, %t, %v", disk, ok, err)
			}

			var updates inplace.Record
			ok, err = durable.ReadJSON(n.root.FS(), "var/lib/loam/inplace.json", &updates)
			if err != nil || !ok || updates.Done.Kubelet != "1.36.3" || updates.Version != "v" ||
				updates.Agent.IsZero() {
				t.Errorf("updates in place %+v, %t, %v", updates, ok, err)
			}

			records := upgrade.Files{Dir: n.engine.Config().State}
			journal, err := upgrade.ReadJournal(records)
			if err != nil || journal == nil || journal.Phase != upgrade.Armed ||
				journal.From.RootHash != a || journal.Target.RootHash != b || journal.Epoch != 3 ||
				!journal.Stay || journal.Began.IsZero() {
				t.Errorf("upgrade %+v, %v", journal, err)
			}
			failed, err := upgrade.Failures(records)
			if err != nil || len(failed) != 1 || failed[0].Reason != "fell back" ||
				failed[0].RootHash != b {
				t.Errorf("failed upgrades %+v, %v", failed, err)
			}
		})
	}
}

// testDrive is a drive with a machine.yaml.
type testDrive struct{ name, serial, text string }

func (d testDrive) String() string { return "drive /dev/" + d.name + " (LOAM)" }

func (d testDrive) Serial() string { return d.serial }

func (d testDrive) Read(int64, ...string) (map[string][]byte, error) {
	return map[string][]byte{"machine.yaml": []byte(d.text)}, nil
}

// withoutNetwork removes the network that the older version kept: no systemd is
// there to bring it up.
func (n *testNode) withoutNetwork(t *testing.T) {
	t.Helper()
	if err := n.root.Remove(networkd.Record); err != nil {
		t.Fatal(err)
	}
}

// startWithDrives is a start of the agent with those drives.
func (n *testNode) startWithDrives(t *testing.T, drives ...source.Drive) *testNode {
	t.Helper()
	again := &testNode{&life{node: &node{
		Env:      n.Env,
		root:     n.root,
		data:     n.data,
		etcdData: n.etcdData,
		engine:   n.engine,
		record:   n.record,
	}}}
	again.Drives = &identity.Drives{Find: func() ([]source.Drive, error) { return drives, nil }}
	again.reset = again.newReset()
	again.identify(t.Context())
	return again
}

// driveText is what is on the drives: a machine.yaml with that host name.
func driveText(name string) string {
	return "apiVersion: loam.dev/v1alpha1\nkind: Machine\nhostname: " + name +
		"\nsource: {file: {path: /srv/config.yaml}}\n"
}

// TestDrivesAfterAnUpgrade: the drive of the node is its drive still, and no later
// one is, whether or not the version before has recorded which one it was.
func TestDrivesAfterAnUpgrade(t *testing.T) {
	own := testDrive{"sr0", "S-own", driveText("node-1")}
	edited := testDrive{"sr0", "S-own", driveText("edited")}
	other := testDrive{"vdb", "S-other", driveText("stranger")}
	nameless := testDrive{"sr0", "", driveText("node-1")}
	another := testDrive{"vdb", "", driveText("stranger")}

	type start struct {
		drives   []source.Drive
		want     string // host name; "" if it follows nothing
		warnings int
		late     bool // the machine has run for an hour
	}
	for _, test := range []struct {
		name, version string
		starts        []start
	}{
		{"no record, and its drive is there", "aa99b7b", []start{
			{drives: []source.Drive{own}, want: "node-1"},
			{drives: []source.Drive{other, own}, want: "node-1"},
			{drives: []source.Drive{other}, want: "node-1"},
			{drives: []source.Drive{edited}, want: "node-1"},
			{want: "node-1"},
		}},
		{"no record, and its drive is gone", "aa99b7b", []start{
			{late: true},
			{drives: []source.Drive{other}, warnings: 1},
			{drives: []source.Drive{other, another}, warnings: 1},
		}},
		{"no record, and the agent begins late", "aa99b7b", []start{
			{drives: []source.Drive{other}, warnings: 1, late: true},
			{drives: []source.Drive{other}, warnings: 1},
		}},
		{"no record, and its drive comes late", "aa99b7b", []start{
			{},
			{drives: []source.Drive{own}, want: "node-1"},
			{drives: []source.Drive{other}, want: "node-1"},
		}},
		{"no record, and a stranger's drive beside its own", "aa99b7b", []start{
			{drives: []source.Drive{other, own}},
			{drives: []source.Drive{own}, want: "node-1"},
		}},
		{"drives without a serial number", "aa99b7b", []start{
			{drives: []source.Drive{nameless}, want: "node-1"},
			{drives: []source.Drive{another}, want: "node-1"},
			{drives: []source.Drive{nameless, another}, want: "node-1"},
			{drives: []source.Drive{nameless}, want: "node-1"},
		}},
		{"a record without the text", "18a045b", []start{
			{drives: []source.Drive{other}, warnings: 1},
			{drives: []source.Drive{edited}, warnings: 1},
			{drives: []source.Drive{other, own}, want: "node-1", warnings: 1},
			{drives: []source.Drive{edited}, want: "node-1"},
			{drives: []source.Drive{other}, want: "node-1"},
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			n := unidentified(t)
			n.ofVersion(t, test.version)
			n.withoutNetwork(t)
			for i, s := range test.starts {
				n.Uptime = func() time.Duration { return time.Second }
				if s.late {
					n.Uptime = func() time.Duration { return time.Hour }
				}
				got := n.startWithDrives(t, s.drives...)
				if got.machine.Hostname != s.want || (got.source != nil) != (s.want != "") {
					t.Errorf("start %d: %q, error %+v", i, got.machine.Hostname, got.status.Error)
				}
				if len(got.status.Warnings) != s.warnings {
					t.Errorf("start %d: warnings %q", i, got.status.Warnings)
				}
			}
		})
	}
}

// TestTheOwnDriveIsAwaited for a while, once, on a node of which nothing records
// where its machine.yaml is from.
func TestTheOwnDriveIsAwaited(t *testing.T) {
	n := unidentified(t)
	n.ofVersion(t, "aa99b7b")
	n.withoutNetwork(t)
	n.Uptime = func() time.Duration { return 10 * time.Second }
	now := n.startWithDrives(t)
	if !now.Drives.Watched() {
		t.Fatal("its drive is not awaited")
	}

	now.Uptime = func() time.Duration { return 2 * time.Minute }
	now.watchDrives(t.Context(), func(err error) { t.Error(err) })
	if again := n.startWithDrives(t); again.Drives.Watched() {
		t.Error("it is awaited once more")
	}
}

// cutOff is an engine during whose change the power fails.
type cutOff struct {
	Engine
	change func()
}

func (c cutOff) Apply(context.Context, apply.Request) (generation.Manifest, error) {
	c.change()
	return generation.Manifest{}, errors.New("power cut")
}

// TestAPowerCutAfterAConfigurationWithoutADocument: a stranger's drive does not count
// afterwards. It counts for a node that an early version configured, which may still get
// its own.
func TestAPowerCutAfterAConfigurationWithoutADocument(t *testing.T) {
	drive := testDrive{"vdb", "S-other", driveText("a")}
	for early, want := range map[string]string{"": "", "aa99b7b": "a"} {
		n := unidentified(t)
		n.runsVersion("1.2.3")
		if early != "" {
			n.ofVersion(t, early)
			n.withoutNetwork(t)
		}
		n.Uptime = func() time.Duration { return time.Second }
		now := n.startWithDrives(t)

		engine := cutOff{change: func() { now.runsA(t, "9.9.9") }}
		_, err := claimingEngine{engine, now.data, now.beforeChange}.Apply(t.Context(), apply.Request{})
		if err == nil || !n.identity().Configured() {
			t.Fatal(err)
		}
		if got := n.startWithDrives(t, drive); got.machine.Hostname != want {
			t.Errorf("early version %q: host name %q, want %q", early, got.machine.Hostname, want)
		}
	}
}

// TestTheDriveOfANodeIsReadUntilItIsConfigured: a mistake can be corrected on the drive
// before, and afterwards nothing on a drive counts until a reset.
func TestTheDriveOfANodeIsReadUntilItIsConfigured(t *testing.T) {
	n := unidentified(t)
	n.runsVersion("1.2.3")
	read := 0
	on := func(name string) source.Drive {
		return countedDrive{testDrive{"sdb", "S1", driveText(name)}, &read}
	}
	is := func(got *testNode, want string) {
		t.Helper()
		if got.status.Hostname != want || got.status.Error != nil || len(got.status.Warnings) > 0 {
			t.Errorf("%q, want %q; %+v, %q", got.status.Hostname, want, got.status.Error,
				got.status.Warnings)
		}
	}

	is(n.startWithDrives(t, on("a")), "a")
	is(n.startWithDrives(t, on("b")), "b")
	is(n.startWithDrives(t), "b") // Without it, too.

	n.runsA(t, "1.2.3")
	read = 0
	for _, drives := range [][]source.Drive{{on("c")}, {on("c"), on("d")}, nil} {
		got := n.startWithDrives(t, drives...)
		is(got, "b")
		if want := "machine.yaml of drive /dev/sdb (LOAM), kept copy"; got.status.Machine != want {
			t.Errorf("status: %q, want %q", got.status.Machine, want)
		}
	}
	if read > 0 {
		t.Errorf("%d drives were read", read)
	}

	// As a reset does.
	err := errors.Join(generation.Open(n.engine.Config().State).Clear(), n.root.Remove(source.AcceptedName))
	if err != nil {
		t.Fatal(err)
	}
	is(n.startWithDrives(t, on("c")), "c")
}

// countedDrive counts how often it is read.
type countedDrive struct {
	testDrive
	read *int
}

func (d countedDrive) Read(limit int64, names ...string) (map[string][]byte, error) {
	*d.read++
	return d.testDrive.Read(limit, names...)
}

// TestASignedDocumentOnADriveCounts on a node that runs a configuration, if it trusts
// keys; then its drive is read.
func TestASignedDocumentOnADriveCounts(t *testing.T) {
	key := signer(1)
	n := unidentified(t)
	n.runsVersion("1.2.3")
	n.startWithDrives(t, testDrive{"sdb", "S1", trusting("a", key)})
	n.runsA(t, "1.2.3")

	got := n.startWithDrives(t, testDrive{"sdb", "S1", trusting("b")})
	if got.status.Hostname != "a" || len(got.status.Warnings) == 0 {
		t.Errorf("not signed: %q, %q", got.status.Hostname, got.status.Warnings)
	}
	got = n.startWithDrives(t, testDrive{"sdb", "S1", signedBy(t, trusting("b", key), 1, key)})
	if got.status.Hostname != "b" {
		t.Errorf("signed: %q, %q", got.status.Hostname, got.status.Warnings)
	}
}

// TestACopyKeepsTheSerialNumber of a document that was signed, of a node that trusts no
// keys, and everything else that was recorded.
func TestACopyKeepsTheSerialNumber(t *testing.T) {
	n := unidentified(t)
	n.runsVersion("1.2.3")
	n.startWithDrives(t, testDrive{"sdb", "S1", signedBy(t, trusting("a"), 5, signer(1))})
	n.runsA(t, "1.2.3")
	before, err := n.root.ReadFile(source.AcceptedName)
	if err != nil {
		t.Fatal(err)
	}

	got := n.startWithDrives(t)
	const want = "machine.yaml of drive /dev/sdb (LOAM), serial 5, kept copy"
	after, err := n.root.ReadFile(source.AcceptedName)
	if got.status.Machine != want || err != nil || string(after) != string(before) {
		t.Errorf("status: %q, want %q; %v, %s", got.status.Machine, want, err, after)
	}
}

// TestNoSecretIsKept of a machine.yaml on a drive, once the node has joined. A reset
// holds all the same as long as the drive has what it had.
func TestNoSecretIsKept(t *testing.T) {
	const token = "abcdef.0123456789abcdef"
	head := "apiVersion: loam.dev/v1alpha1\nkind: Machine\nhostname: node-1\n"
	ca := pem.EncodeToMemory(&pem.Block{
		Type:  "CERTIFICATE",
		Bytes: keys.New(t, "ca").Certificate.Raw,
	})
	for name, text := range map[string]string{
		"a bootstrap token": head + fmt.Sprintf("source: {cluster: {server: 'https://a', ca: %q, "+
			"secret: s, bootstrapToken: %s}}\n", ca, token),
		"a file": strings.Replace(head, "hostname: node-1\n", "", 1) + "source: {nodeAgent: {}}\n" +
			"files: [{path: /var/lib/gardener-node-agent/machine-name, content: node-1}, " +
			"{path: /var/lib/gardener-node-agent/credentials/bootstrap-token, content: " + token + "}]\n",
	} {
		t.Run(name, func(t *testing.T) {
			n := unidentified(t)
			n.runsVersion("1.2.3")
			drive := testDrive{"sr0", "S", text}
			has := func(want bool) {
				t.Helper()
				record, err := n.root.ReadFile(source.AcceptedName)
				if err != nil || strings.Contains(string(record), token) != want {
					t.Errorf("%s, %v", record, err)
				}
			}
			n.startWithDrives(t, drive)
			has(true)

			join(t, n)
			n.runsA(t, "1.2.3")
			n.startWithDrives(t, drive)
			has(false)
			got := n.startWithDrives(t)
			has(false)
			if got.source == nil || got.status.Hostname != "node-1" || len(got.status.Warnings) > 0 {
				t.Errorf("without the drive: %+v, %q", got.status.Error, got.status.Warnings)
			}

			if err := got.reset.Begin(); err != nil {
				t.Fatal(err)
			}
			begun, err := n.root.ReadFile(reset.RecordName)
			if err != nil || !strings.Contains(string(begun), `"done":false`) {
				t.Fatalf("%s, %v", begun, err)
			}
			files.Write(t, filepath.Join(n.Root, reset.RecordName),
				strings.Replace(string(begun), `"done":false`, `"done":true`, 1))
			if err := n.root.Remove(source.AcceptedName); err != nil {
				t.Fatal(err)
			}
			if again := n.startWithDrives(t, drive); !again.reset.Active() {
				t.Error("the drive of before has ended the reset")
			}
		})
	}
}

// TestAnImageGetsKeysByAnUpgrade: the document that was accepted before counts, with its
// drive and without, also once the secrets are out of the copy, and no other one.
func TestAnImageGetsKeysByAnUpgrade(t *testing.T) {
	const name = "files: [{path: /var/lib/gardener-node-agent/machine-name, content: node-1}]\n"
	head := "apiVersion: loam.dev/v1alpha1\nkind: Machine\nsource: {nodeAgent: {}}\n"
	own := testDrive{"sr0", "S", head + name}
	edited := testDrive{"sr0", "S", head + strings.Replace(name, "node-1", "edited", 1)}
	other := testDrive{"vdb", "S-other", edited.text}

	n := unidentified(t)
	n.runsVersion("1.2.3")
	n.startWithDrives(t, own)
	n.runsA(t, "1.2.3")
	join(t, n)
	n.startWithDrives(t)
	if record, err := n.root.ReadFile(source.AcceptedName); err != nil ||
		strings.Contains(string(record), "files") {
		t.Fatalf("the copy has the files still: %s, %v", record, err)
	}

	key := trust.FormatKey(signer(1).Public().(ed25519.PublicKey))
	files.Write(t, filepath.Join(n.Root, "proc/cmdline"), "loam.trust="+key)
	signed := testDrive{"sr0", "S", signedBy(t, edited.text, 1, signer(1))}
	for i, s := range []struct {
		drives   []source.Drive
		want     string
		warnings int
	}{
		{nil, "node-1", 0},
		{[]source.Drive{own}, "node-1", 0},
		{nil, "node-1", 0},
		{[]source.Drive{edited}, "node-1", 2},
		{[]source.Drive{other}, "node-1", 1},
		{[]source.Drive{other, own}, "node-1", 1},
		{[]source.Drive{signed}, "edited", 1}, // Its files are not written any more.
		{[]source.Drive{own}, "edited", 2},
		{nil, "edited", 0},
	} {
		got := n.startWithDrives(t, s.drives...)
		if got.status.Hostname != s.want || len(got.status.Warnings) != s.warnings {
			t.Errorf("start %d: %q, warnings %q", i, got.status.Hostname, got.status.Warnings)
		}
	}
}

// runsA gives the node a configuration under that version.
func (n *testNode) runsA(t *testing.T, osVersion string) {
	t.Helper()
	m := generation.Manifest{Number: 1, Digest: strings.Repeat("1", 64), OSVersion: osVersion}
	store := generation.Open(n.engine.Config().State)
	if err := errors.Join(store.Write(m, nil), store.Activate(osVersion, m.Name())); err != nil {
		t.Fatal(err)
	}
}
