package publish

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/image/meter"
	"github.com/loam-os/loam/image/repository"
)

// edit is a change of what the fixture has published of a version.
func (f *fixture) edit(version string) Edit {
	return Edit{
		Dir:      f.dir,
		Version:  version,
		Keys:     f.keys,
		Expiries: DefaultExpiries(),
		Now:      f.now,
		Report:   meter.None,
	}
}

// versions are what a node finds.
func (f *fixture) versions() []string {
	f.Helper()
	var all []string
	for _, r := range f.updated() {
		all = append(all, r.Version)
	}
	return all
}

func TestWavesOfARelease(t *testing.T) {
	f := newFixture(t)
	first := []repository.Wave{{After: start, Share: 1}, {After: start.Add(day), Share: 100}}
	b := f.bundle("0.2.0")
	b.Waves = first
	_, err := f.tryPublish(b)
	f.ok(err)
	f.publish("0.1.0")

	check := func(want []repository.Wave) {
		t.Helper()
		all := f.updated()
		if len(all) != 2 || all[0].Version != "0.2.0" || len(all[1].Waves) > 0 {
			t.Fatalf("releases %+v", all)
		}
		if diff := cmp.Diff(want, all[0].Waves); diff != "" {
			t.Errorf("waves: %s", diff)
		}
		if _, err := Verify(f.Context(), f.dir, meter.None); err != nil {
			t.Error(err)
		}
	}
	check(first)

	// Again with the same waves is no change, with others a mistake, without any a repair.
	_, err = f.tryPublish(b)
	f.ok(err)
	b.Waves = first[:1]
	_, err = f.tryPublish(b)
	if fault.Of(err) != fault.FileExists || !strings.Contains(hint.Text(err), "`loamctl waves`") {
		t.Errorf("other waves: %v", err)
	}
	b.Waves = nil
	_, err = f.tryPublish(b)
	f.ok(err)
	check(first)

	slower := []repository.Wave{{After: start, Share: 1}, {After: start.Add(3 * day), Share: 50}}
	_, err = f.edit("0.2.0").SetWaves(f.Context(), slower)
	f.ok(err)
	check(slower)

	_, err = f.edit("0.2.0").SetWaves(f.Context(), []repository.Wave{{After: start, Share: 0}})
	if err == nil {
		t.Error("a wave for nobody was set")
	}
	check(slower)

	_, err = f.edit("0.2.0").SetWaves(f.Context(), nil)
	f.ok(err)
	check(nil)

	_, err = f.edit("0.9.0").SetWaves(f.Context(), nil)
	if fault.Of(err) != fault.NoSuchRelease ||
		!strings.Contains(hint.Text(err), "it has 0.2.0, 0.1.0") {
		t.Errorf("a version that is not published: %v", err)
	}
}

// TestAReleaseIsWithdrawn is about a release of whose name another one is a part.
func TestAReleaseIsWithdrawn(t *testing.T) {
	f := newFixture(t)
	f.publish("0.2.0")
	bad := f.bundle("0.2.0.1")
	_, err := f.tryPublish(bad)
	f.ok(err)

	before := string(f.read("SHA256SUMS"))
	_, err = f.edit("0.2.0.1").Withdraw(f.Context(), nil)
	f.ok(err)
	if diff := cmp.Diff([]string{"0.2.0"}, f.versions()); diff != "" {
		t.Errorf("releases: %s", diff)
	}
	sums := string(f.read("SHA256SUMS"))
	if strings.Contains(sums, "_0.2.0.1_") || strings.Count(sums, "_0.2.0_") != 3 {
		t.Errorf("SHA256SUMS:\n%s", sums)
	}
	if _, err := Verify(f.Context(), f.dir, meter.None); err != nil {
		t.Error(err)
	}

	// A call that was cut off before SHA256SUMS was written is repeated.
	f.write("SHA256SUMS", []byte(before))
	_, err = f.edit("0.2.0.1").Withdraw(f.Context(), nil)
	f.ok(err)
	if got := string(f.read("SHA256SUMS")); got != sums {
		t.Errorf("SHA256SUMS after a call that was cut off:\n%s", got)
	}
	_, err = f.edit("0.2.0.1").Withdraw(f.Context(), nil)
	if fault.Of(err) != fault.NoSuchRelease {
		t.Errorf("once more: %v", err)
	}

	// Publishing it again undoes it.
	f.now = f.now.Add(time.Hour)
	_, err = f.tryPublish(bad)
	f.ok(err)
	if diff := cmp.Diff([]string{"0.2.0.1", "0.2.0"}, f.versions()); diff != "" {
		t.Errorf("releases: %s", diff)
	}
}

func TestAWithdrawalKeepsTheSignatureOfTheSums(t *testing.T) {
	f := newFixture(t)
	sign := func(text []byte) ([]byte, error) { return append([]byte("by me: "), text...), nil }
	for _, version := range []string{"0.2.0", "0.3.0"} {
		b := f.bundle(version)
		b.SignSums = sign
		_, err := f.tryPublish(b)
		f.ok(err)
	}

	_, err := f.edit("0.3.0").Withdraw(f.Context(), nil)
	if err == nil || !strings.Contains(hint.Text(err), "hint: --sums-key signs it again") {
		t.Errorf("without the key: %v", err)
	}
	if diff := cmp.Diff([]string{"0.3.0", "0.2.0"}, f.versions()); diff != "" {
		t.Errorf("releases after an error: %s", diff)
	}
	_, err = f.edit("0.3.0").Withdraw(f.Context(), sign)
	f.ok(err)
	sums := string(f.read("SHA256SUMS"))
	if got := string(f.read("SHA256SUMS.gpg")); got != "by me: "+sums ||
		strings.Contains(sums, "0.3.0") {
		t.Errorf("signature %q", got)
	}
}
