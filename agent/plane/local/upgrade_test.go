package local

import (
	"context"
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/plane"
	"github.com/loam-os/loam/agent/plane/bundle"
	"github.com/loam-os/loam/agent/plane/pki"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/test/files"
)

// Versions of an upgrade in which Kubernetes and etcd move to the next minor version.
const (
	oldVersion, oldEtcd = "1.36.3", "3.6.9"
	newVersion, newEtcd = "1.37.2", "3.7.3"
)

// upgrading is a node whose record has another version of Kubernetes. The engine and
// etcd are what the test says.
type upgrading struct {
	*fixture
	t *testing.T

	// digest is what runs, and trying whether it is on trial.
	digest string
	trying bool

	// own and wanted are the records before and after, and before is what ran.
	own, wanted plane.Record
	before      config.Desired
}

func newUpgrade(t *testing.T) *upgrading {
	t.Helper()
	n := newNode(t, plane.Settings{Kubernetes: oldVersion}, "192.0.2.10")
	u := &upgrading{fixture: n, t: t}
	n.Current = func() (string, bool, error) { return u.digest, u.trying, nil }

	dir := filepath.Join(n.Root, bundle.Directory)
	etcd := filepath.Join(dir, oldVersion, "bin/etcd")
	files.Write(t, etcd, "#!/bin/sh\necho etcd Version: "+oldEtcd+"\n")
	if err := os.Chmod(etcd, 0o755); err != nil {
		t.Fatal(err)
	}
	writeBundle(t, filepath.Join(dir, newVersion), newVersion)

	var err error
	u.own, _, err = n.Store.Record()
	if err != nil {
		t.Fatal(err)
	}
	u.serves(oldVersion, oldVersion, oldEtcd)
	u.before = u.decodes()
	u.runs(u.before, false)
	u.decodes()
	u.checkApplied(u.own)

	u.wanted = u.own
	u.wanted.Kubernetes = newVersion
	u.wanted.Audit.Policy = plane.AuditMetadata
	u.write(u.wanted)
	return u
}

func (u *upgrading) write(r plane.Record) {
	u.t.Helper()
	if err := u.Store.WriteRecord(r); err != nil {
		u.t.Fatal(err)
	}
}

// serves has etcd of a bundle serve, beside the other programs.
func (u *upgrading) serves(programs, from, etcd string) {
	u.t.Helper()
	files.Write(u.t, filepath.Join(u.Root, plane.StateDirectory, "started"), strings.Join([]string{
		"Kubernetes " + programs,
		"Programs " + bundle.Directory + "/" + from + "/bin",
		"etcd Version: " + etcd, "",
	}, "\n"))
}

// read returns a file of what the node keeps of its cluster, "" if there is none.
func (u *upgrading) read(name string) string {
	u.t.Helper()
	text, err := os.ReadFile(filepath.Join(u.Root, plane.StateDirectory, name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		u.t.Fatal(err)
	}
	return string(text)
}

// runs has the engine run a configuration.
func (u *upgrading) runs(d config.Desired, trying bool) {
	u.digest = d.Digest()
	u.trying = trying
}

func (u *upgrading) decodes() config.Desired {
	u.t.Helper()
	d, err := u.decode(u.t)
	if err != nil {
		u.t.Fatal(err)
	}
	return d
}

// wants checks what the node wants now.
func (u *upgrading) wants(when string, want config.Desired) {
	u.t.Helper()
	if got := u.decodes(); got.Digest() != want.Digest() {
		u.t.Errorf("%s: the node wants something else:\n%s", when,
			cmp.Diff(textOf(u.t, want, "etcd.service"), textOf(u.t, got, "etcd.service")))
	}
}

func (u *upgrading) checkApplied(want plane.Record) {
	u.t.Helper()
	applied, err := u.Store.Applied()
	if err != nil || applied == nil {
		u.t.Fatalf("the record that runs: %v, %v", applied, err)
	}
	if diff := cmp.Diff(want, *applied); diff != "" {
		u.t.Errorf("the record that runs (-want +got):\n%s", diff)
	}
}

// onlyEtcd returns the first step, and checks that nothing but etcd differs from what
// runs.
func (u *upgrading) onlyEtcd() config.Desired {
	u.t.Helper()
	first := u.decodes()
	text := textOf(u.t, first, "etcd.service")
	for _, part := range []string{
		"ExecStart=/var/lib/loam/kubernetes/1.37.2/bin/etcd ",
		"echo Kubernetes 1.36.3 && echo Programs /var/lib/loam/kubernetes/1.37.2/bin && " +
			"/var/lib/loam/kubernetes/1.37.2/bin/etcd --version;",
	} {
		if !strings.Contains(text, part) {
			u.t.Errorf("no %q in\n%s", part, text)
		}
	}

	again := first
	again.Units = nil
	for i, unit := range first.Units {
		if unit.Name == "etcd.service" {
			unit = u.before.Units[i]
		}
		again.Units = append(again.Units, unit)
	}
	if again.Digest() != u.before.Digest() {
		u.t.Error("more than etcd is another")
	}
	return first
}

// checkAddOns checks whether the add-ons of the record wait for its programs.
func (u *upgrading) checkAddOns(when string, wait bool) {
	u.t.Helper()
	err := checkPrograms(u.t.Context(), u.Store, u.Root, u.wanted)
	if (err != nil) != wait {
		u.t.Errorf("%s the add-ons: %v", when, err)
	}
}

// TestEtcdIsUpgradedAloneFirst: the other programs and settings follow when the new
// etcd is no longer on trial, whatever is cut off in between.
func TestEtcdIsUpgradedAloneFirst(t *testing.T) {
	u := newUpgrade(t)
	first := u.onlyEtcd()
	u.checkAddOns("before the upgrade", true)

	u.runs(first, true)
	u.wants("before etcd serves", first)
	u.serves(oldVersion, newVersion, newEtcd)
	u.wants("while etcd is on trial", first)
	u.checkAddOns("while etcd is on trial", true)
	u.checkApplied(u.own)

	u.runs(first, false)
	u.Proven()
	<-u.again
	second := u.decodes()
	for name, part := range map[string]string{
		"etcd.service":           "echo Kubernetes 1.37.2 && echo Programs /var/lib/loam/kubernetes/1.37.2/bin",
		"kube-apiserver.service": "ExecStart=/var/lib/loam/kubernetes/1.37.2/bin/kube-apiserver",
		"kubelet.service":        "ExecStart=/var/lib/loam/kubernetes/1.37.2/bin/kubelet",
	} {
		if text := textOf(t, second, name); !strings.Contains(text, part) {
			t.Errorf("no %q in\n%s", part, text)
		}
	}
	if !strings.Contains(textOf(t, second, "kube-apiserver.service"), "--audit-policy-file") {
		t.Error("the settings are left out")
	}

	u.runs(second, true)
	u.wants("before etcd serves again", second)
	u.serves(newVersion, newVersion, newEtcd)
	u.wants("while the rest is on trial", second)
	u.checkAddOns("while the rest is on trial", false)
	if u.read("proven") == u.read("started") {
		t.Error("what is on trial is proven")
	}
	u.checkApplied(u.own)

	u.runs(second, false)
	u.wants("in the end", second)
	u.checkApplied(u.wanted)
	if proven := u.read("proven"); proven != u.read("started") {
		t.Errorf("what is proven is not what serves, but:\n%s", proven)
	}
}

// TestAnEtcdThatDoesNotComeUp: the engine goes back to the older one, which the data
// are still for, and so can the record.
func TestAnEtcdThatDoesNotComeUp(t *testing.T) {
	u := newUpgrade(t)
	first := u.onlyEtcd()
	u.runs(first, true)
	u.runs(u.before, true)
	u.wants("while the engine goes back", first)
	u.runs(u.before, false)
	u.wants("after the revert, which holds it", first)

	u.write(u.own)
	u.wants("with the record before", u.before)
}

// TestAProgramThatDoesNotComeUp: the engine goes back to the older programs with the
// newer etcd. They stay, as the older etcd is refused.
func TestAProgramThatDoesNotComeUp(t *testing.T) {
	u := newUpgrade(t)
	first := u.onlyEtcd()
	u.serves(oldVersion, newVersion, newEtcd)
	u.runs(first, false)
	second := u.decodes()
	u.runs(second, true)
	u.serves(newVersion, newVersion, newEtcd)

	u.serves(oldVersion, newVersion, newEtcd)
	u.runs(first, false)
	u.wants("after the revert, which holds it", second)
	u.checkAddOns("after the revert", true)

	u.write(u.own)
	_, err := u.decode(t)
	if err == nil || !strings.Contains(err.Error(), "cannot read the data that etcd "+newEtcd) {
		t.Errorf("the older etcd: %v", err)
	}
}

// TestAnUpgradeOfAnEarlierRelease: a node whose record was not kept as applied takes
// the settings of the new one for its first step.
func TestAnUpgradeOfAnEarlierRelease(t *testing.T) {
	u := newUpgrade(t)
	err := os.Remove(filepath.Join(u.Root, plane.StateDirectory, "applied.json"))
	if err != nil {
		t.Fatal(err)
	}
	files.Write(t, filepath.Join(u.Root, plane.StateDirectory, "started"),
		"Kubernetes "+oldVersion+"\netcd Version: "+oldEtcd+"\n")

	u.wanted.Audit = u.own.Audit
	u.write(u.wanted)
	u.onlyEtcd()
}

// encryption returns what the API server encrypts.
func (u *upgrading) encryption() string {
	u.t.Helper()
	text, err := os.ReadFile(filepath.Join(u.Root, plane.KeysDirectory, "encryption.json"))
	if err != nil {
		u.t.Fatal(err)
	}
	return string(text)
}

// TestTheFirstStepKeepsWhatIsEncrypted: the API server has the list of the new record
// since the agent has started, and could not read what it has written with it.
func TestTheFirstStepKeepsWhatIsEncrypted(t *testing.T) {
	u := newUpgrade(t)
	u.wanted.Encrypt = append(u.wanted.Encrypt, "configmaps")
	u.wanted.CertificateNames = []string{"api.plant.example"}
	u.write(u.wanted)
	if err := u.Renew(u.wanted); err != nil {
		t.Fatal(err)
	}
	before := u.encryption()
	served := u.Store.Certificates(u.wanted)

	u.onlyEtcd()
	if after := u.encryption(); after != before || !strings.Contains(after, "configmaps") {
		t.Errorf("encrypted were %s, and are %s", before, after)
	}
	for name, cert := range u.Store.Certificates(u.wanted) {
		if !cert.Equal(served[name]) {
			t.Errorf("%s was issued again", name)
		}
	}
}

// TestAStartThatWasNotKept: a full disk has kept nothing of what has started. What the
// engine runs says then how far the upgrade is.
func TestAStartThatWasNotKept(t *testing.T) {
	u := newUpgrade(t)
	first := u.onlyEtcd()
	u.runs(first, true)
	u.wants("while etcd is on trial", first)

	u.runs(first, false)
	second := u.decodes()
	if text := textOf(t, second, "kubelet.service"); !strings.Contains(text, newVersion) {
		t.Fatalf("after the trial of etcd, the kubelet is\n%s", text)
	}
	u.runs(second, true)
	u.wants("while the rest is on trial", second)
	u.runs(second, false)
	u.wants("in the end", second)
	u.checkApplied(u.wanted)
	u.checkAddOns("in the end", false)

	u.Now = func() time.Time { return built.AddDate(1, 0, 0) }
	renewed := u.decodes()
	if text := textOf(t, renewed, "kubelet.service"); !strings.Contains(text, newVersion) {
		t.Errorf("with other certificates, the kubelet is\n%s", text)
	}
}

// TestAStartThatWasLost: an operator has removed what etcd has kept. The upgrade has two
// steps all the same, and the node does not go back.
func TestAStartThatWasLost(t *testing.T) {
	u := newUpgrade(t)
	lost := filepath.Join(u.Root, plane.StateDirectory, "started")
	if err := os.Remove(lost); err != nil {
		t.Fatal(err)
	}
	first := u.onlyEtcd()
	u.checkAddOns("before the upgrade", true)
	u.runs(first, true)
	u.wants("while etcd is on trial", first)
	u.serves(oldVersion, newVersion, newEtcd)
	u.runs(first, false)
	u.runs(u.decodes(), false)
	u.decodes()
	u.checkApplied(u.wanted)

	if err := os.Remove(lost); err != nil {
		t.Fatal(err)
	}
	u.write(u.own)
	u.checkNoWayBack("without a start")
	u.serves(oldVersion, newVersion, newEtcd)
	u.checkNoWayBack("with an earlier start, as the disk was full at the last one")
}

// checkNoWayBack checks that the record before the upgrade is refused.
func (u *upgrading) checkNoWayBack(when string) {
	u.t.Helper()
	_, decoded := u.decode(u.t)
	_, set := DecodeChange(u.t.Context(), u.Store, u.Root, "new.json", u.own.Text(), u.wanted)
	for _, err := range []error{decoded, set} {
		if err == nil || !strings.Contains(err.Error(), "the cluster runs "+newVersion) {
			u.t.Errorf("%s: %v", when, err)
		}
	}
}

// TestTheProgramsThatRunAreFetchedAgain: the first step needs them.
func TestTheProgramsThatRunAreFetchedAgain(t *testing.T) {
	u := newUpgrade(t)
	dir := filepath.Join(u.Root, bundle.Directory)
	if err := os.RemoveAll(filepath.Join(dir, oldVersion)); err != nil {
		t.Fatal(err)
	}
	if _, err := u.decode(t); err == nil || hint.Of(err) == "" {
		t.Errorf("without a repository: %v", err)
	}

	var fetched []string
	absent := errors.New("not in the repository")
	answer := absent
	u.bundles.fetch = func(_ context.Context, version string, _ func(int64, int64)) error {
		fetched = append(fetched, version)
		if answer == nil {
			writeBundle(t, filepath.Join(dir, version), version)
		}
		return answer
	}
	if _, err := u.settled(t); !errors.Is(err, absent) {
		t.Errorf("of a repository without them: %v", err)
	}

	answer = nil
	u.Uptime = func() time.Duration { return time.Hour + minPause }
	if _, err := u.settled(t); err != nil {
		t.Fatal(err)
	}
	u.onlyEtcd()
	if want := []string{oldVersion, oldVersion}; !slices.Equal(fetched, want) {
		t.Errorf("fetched %q, want %q", fetched, want)
	}
}

// TestRunningVersionIsKeptUp while the new version cannot be fetched, or is refused.
func TestRunningVersionIsKeptUp(t *testing.T) {
	u := newUpgrade(t)
	if err := os.RemoveAll(filepath.Join(u.Root, bundle.Directory, newVersion)); err != nil {
		t.Fatal(err)
	}
	u.wanted.Encrypt = append(u.wanted.Encrypt, "configmaps")
	u.write(u.wanted)
	waits := func(when string) {
		t.Helper()
		if _, err := u.decode(t); err == nil || !strings.Contains(err.Error(), newVersion) {
			t.Errorf("%s: %v", when, err)
		}
	}
	waits("at first")

	address := "192.0.2.11"
	u.Addresses = func() ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr(address)}, nil
	}
	moved := u.decodes()
	text := textOf(t, moved, "kubelet.service")
	if !strings.Contains(text, "--node-ip=192.0.2.11") || !strings.Contains(text, oldVersion) {
		t.Errorf("at another address, the kubelet is\n%s", text)
	}
	if !strings.Contains(u.encryption(), "configmaps") {
		t.Errorf("encrypted are %s", u.encryption())
	}
	u.runs(moved, true)
	waits("while the address is on trial")
	u.runs(moved, false)
	waits("with the address")

	u.Now = func() time.Time { return built.AddDate(1, 0, 0) }
	renewed := u.decodes()
	before, after := textOf(t, moved, "etcd.service"), textOf(t, renewed, "etcd.service")
	if before == after {
		t.Error("etcd does not start with the certificates that were due")
	}
	u.runs(renewed, false)
	waits("with the certificates")

	address = "192.0.2.12"
	u.serves(oldVersion, newVersion, newEtcd)
	waits("in the middle of an upgrade")
}

// TestTheNodeIsKeptUpWithADamagedRecord: at another address, after two years, and when
// its agent starts.
func TestTheNodeIsKeptUpWithADamagedRecord(t *testing.T) {
	for name, edit := range map[string]struct{ old, new string }{
		"a name that is refused":     {`"kubernetes",`, `"plant-8",`},
		"a version that is misspelt": {`"1.37.2"`, `"v1.37.2"`},
		"a policy that is not known": {`"none"`, `"all"`},
		"no comma":                   {`"kubernetes",`, `"kubernetes"`},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, plane.Settings{}, "192.0.2.10")
			n.started(t, "1.37.2", "3.7.3")
			n.hasProved(t)
			own, _, err := n.Store.Record()
			if err != nil {
				t.Fatal(err)
			}
			files.Write(t, filepath.Join(n.Root, plane.RecordFile),
				strings.Replace(string(own.Text()), edit.old, edit.new, 1))

			n.has("198.51.100.7")
			n.Now = func() time.Time { return built.AddDate(2, 0, 0) }
			d, err := n.decode(t)
			if !strings.Contains(textOf(t, d, "kubelet.service"), "--node-ip=198.51.100.7") {
				t.Errorf("the kubelet has an address that the node has not: %v", err)
			}
			if cert := n.Store.Certificates(own)[pki.APIServer]; cert.NotAfter.Before(n.Now()) {
				t.Errorf("the certificate of the API server expired on %s", cert.NotAfter)
			}

			n.Current = func() (string, bool, error) { return d.Digest(), false, nil }
			if _, err := n.decode(t); err == nil {
				t.Error("nothing is wrong with the record")
			}
		})
	}
}

// hasProved is a node that runs its record, and not on trial.
func (n *fixture) hasProved(t *testing.T) {
	t.Helper()
	d, err := n.decode(t)
	if err != nil {
		t.Fatal(err)
	}
	n.Current = func() (string, bool, error) { return d.Digest(), false, nil }
	if _, err := n.decode(t); err != nil {
		t.Fatal(err)
	}
}

// TestAVersionOfALaterRelease: a node that went back to an earlier release of Loam runs a
// Kubernetes whose flags that does not know. It changes nothing of it, but its certificates
// stay valid.
func TestAVersionOfALaterRelease(t *testing.T) {
	n := newNode(t, plane.Settings{}, "192.0.2.10")
	n.started(t, "1.99.0", "3.7.3")
	later, _, err := n.Store.Record()
	if err != nil {
		t.Fatal(err)
	}
	later.Kubernetes = "1.99.0"
	if err := errors.Join(n.Store.WriteRecord(later), n.Store.WriteApplied(later)); err != nil {
		t.Fatal(err)
	}
	r, made, err := FindRecord(n.Store, nil)
	if err != nil || r == nil || !made || n.Renew(*r) != nil {
		t.Fatalf("at its start, the node follows %v, %v", r, err)
	}

	n.Current = func() (string, bool, error) { return "runs", false, nil }
	n.Now = func() time.Time { return built.AddDate(2, 0, 0) }
	before := n.serial(t, later)
	_, err = n.decode(t)
	if err == nil || !strings.Contains(err.Error(), `"1.99.0" is not known to this release`) {
		t.Errorf("got %v", err)
	}
	if n.serial(t, later) == before {
		t.Error("no certificates were issued")
	}
}

// TestNothingEncryptedIsDropped when an operator takes back or damages the record that
// added it, which is on trial.
func TestNothingEncryptedIsDropped(t *testing.T) {
	for _, text := range []string{"back", "damaged"} {
		t.Run(text, func(t *testing.T) {
			n := newNode(t, plane.Settings{}, "192.0.2.10")
			n.hasProved(t)
			own, _, err := n.Store.Record()
			if err != nil {
				t.Fatal(err)
			}
			more := own
			more.Audit.Policy = plane.AuditMetadata
			more.Encrypt = []string{"configmaps", "secrets"}
			if err := n.Store.WriteRecord(more); err != nil {
				t.Fatal(err)
			}
			trial, err := n.decode(t)
			if err != nil {
				t.Fatal(err)
			}
			n.Current = func() (string, bool, error) { return trial.Digest(), true, nil }

			if text == "back" {
				text = string(own.Text())
			}
			files.Write(t, filepath.Join(n.Root, plane.RecordFile), text)
			if _, err := n.decode(t); err == nil {
				t.Error("the record is not refused")
			}
			r, _, err := FindRecord(n.Store, nil)
			if err == nil {
				err = n.Renew(*r) // a start of the agent
			}
			if err != nil {
				t.Fatal(err)
			}
			encrypted, err := n.Store.Keys.Encrypted()
			if err != nil || !slices.Equal(encrypted, more.Encrypt) {
				t.Errorf("encrypted are %q, %v", encrypted, err)
			}
		})
	}
}

// TestARecordThatCannotBeKeptAsApplied, as the disk is full, is no fault of a node that
// runs it.
func TestARecordThatCannotBeKeptAsApplied(t *testing.T) {
	u := newUpgrade(t)
	room := false
	u.hook = func(step durable.Step) error {
		if step.Op == durable.Rename && path.Base(step.Name) == "applied.json" && !room {
			return &durable.Fault{Err: syscall.ENOSPC}
		}
		return nil
	}
	u.wanted.Kubernetes = oldVersion
	u.write(u.wanted)

	changed := u.decodes()
	u.runs(changed, false)
	u.wants("without room", changed)
	u.checkApplied(u.own)
	if u.warnings().Len() != 1 {
		t.Errorf("the log has %+v", u.warnings().All())
	}

	room = true
	u.wants("with room", changed)
	u.checkApplied(u.wanted)
}

// TestFailedUpkeepIsLoggedOnce, although the agent asks every few seconds.
func TestFailedUpkeepIsLoggedOnce(t *testing.T) {
	u := newUpgrade(t)
	u.Addresses = func() ([]netip.Addr, error) { return nil, nil }
	for range 3 {
		if _, err := u.decode(t); err == nil {
			t.Error("a node without an address has a configuration")
		}
	}
	if u.logs.FilterMessage("what runs is not kept up to date").Len() != 1 {
		t.Errorf("the log has %+v", u.logs.All())
	}
}

// TestEarlierProgramsAreRemoved: those of the record before stay, and those that come
// later.
func TestEarlierProgramsAreRemoved(t *testing.T) {
	u := newUpgrade(t)
	root, err := os.OpenRoot(u.Root)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	store := bundle.NewStore(durable.New(root, nil))
	u.Prune = func(oldest string) error { return store.Prune(oldest, nil) }
	const earlier, later = "1.35.1", "1.39.0"
	for _, version := range []string{earlier, later} {
		writeBundle(t, filepath.Join(u.Root, bundle.Directory, version), version)
	}
	want := func(versions ...string) {
		t.Helper()
		have, err := store.Versions()
		slices.Sort(versions)
		if err != nil || !slices.Equal(have, versions) {
			t.Errorf("programs of %q, %v, want %q", have, err, versions)
		}
	}

	u.runs(u.onlyEtcd(), false)
	u.serves(oldVersion, newVersion, newEtcd)
	second := u.decodes()
	u.runs(second, true)
	u.decodes()
	want(earlier, oldVersion, newVersion, later)

	u.runs(second, false)
	u.decodes()
	want(oldVersion, newVersion, later)

	u.wanted.Audit.Policy = plane.AuditNone
	u.write(u.wanted)
	third := u.decodes()
	u.runs(third, false)
	u.decodes()
	want(newVersion, later)
}
