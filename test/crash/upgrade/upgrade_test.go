package upgrade_test

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"testing"
	"testing/fstest"

	"github.com/loam-os/loam/agent/upgrade"
	"github.com/loam-os/loam/agent/upgrade/fill"
	"github.com/loam-os/loam/firmware/authenticode"
	"github.com/loam-os/loam/firmware/efivar"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/test/firmware"
)

// step runs the upgrader to where it waits for something else.
func step(t testing.TB, u *upgrade.Upgrader, v upgrade.Verdict, from fill.Sources) upgrade.Op {
	t.Helper()
	op, err := u.Run(t.Context(), v, from)
	if err != nil {
		t.Fatalf("%s: %v", op.Kind, err)
	}
	return op
}

func TestAnUpgradeThatIsGoodStays(t *testing.T) {
	p, disk := newFixture(t, "1.0.0", "2.0.0")
	one := p.releases[0]
	two := p.releases[1]
	r := newRecorder(disk, nil)
	u := p.upgrader(r, one.System)
	if op := step(t, u, upgrade.Verdict{}, fill.Sources{}); op.Kind != upgrade.Nothing {
		t.Fatalf("a node with nothing to do: %v", op)
	}

	if err := u.Begin(two.index, upgrade.Options{Ref: "r"}, upgrade.Facts{}); err != nil {
		t.Fatal(err)
	}
	if op := step(t, u, upgrade.Verdict{}, packOnly(p.pack("2.0.0"))); op.Kind != upgrade.Reboot {
		t.Fatalf("after staging: %v", op)
	}

	runs, err := p.boot(r.Memory)
	if err != nil || runs != two.System {
		t.Fatalf("boots %v %v", runs, err)
	}

	u = p.upgrader(r, runs)
	if op := step(t, u, upgrade.Verdict{}, fill.Sources{}); op.Kind != upgrade.Observe {
		t.Fatalf("on trial: %v", op)
	}

	op := step(t, u, upgrade.Verdict{Word: upgrade.Good}, fill.Sources{})
	if op.Kind != upgrade.Nothing {
		t.Fatalf("after the verdict: %v", op)
	}

	if j, err := upgrade.ReadJournal(r); j != nil || err != nil {
		t.Errorf("journal %v %v", j, err)
	}

	for range 5 {
		runs, err = p.boot(r.Memory)
		if err != nil || runs != two.System {
			t.Fatalf("later boots %v %v", runs, err)
		}
	}
	err = u.Begin(two.index, upgrade.Options{}, upgrade.Facts{})
	if fault.Of(err) != fault.AlreadyRunning {
		t.Errorf("the same once more: %v", err)
	}
}

func TestAnUpgradeThatNeverComesUpFallsBackAndIsRemembered(t *testing.T) {
	p, disk := newFixture(t, "1.0.0", "2.0.0")
	one := p.releases[0]
	two := p.releases[1]
	r := newRecorder(disk, nil)
	u := p.upgrader(r, one.System)
	if err := u.Begin(two.index, upgrade.Options{}, upgrade.Facts{}); err != nil {
		t.Fatal(err)
	}

	step(t, u, upgrade.Verdict{}, packOnly(p.pack("2.0.0")))
	for i := range upgrade.Tries {
		if runs, err := p.boot(r.Memory); err != nil || runs != two.System {
			t.Fatalf("boot %d: %v %v", i, runs, err)
		}
	}

	runs, err := p.boot(r.Memory)
	if err != nil || runs != one.System {
		t.Fatalf("after %d boots that failed: %v %v", upgrade.Tries, runs, err)
	}

	u = p.upgrader(r, runs)
	if op := step(t, u, upgrade.Verdict{}, fill.Sources{}); op.Kind != upgrade.Nothing {
		t.Errorf("after the fallback: %v", op)
	}

	failed, err := upgrade.Failures(r)
	if err != nil || len(failed) != 1 ||
		(upgrade.System{Version: failed[0].Version, RootHash: failed[0].RootHash}) != two.System {
		t.Errorf("remembers %v %v", failed, err)
	}

	err = u.Begin(two.index, upgrade.Options{}, upgrade.Facts{})
	if fault.Of(err) != fault.FailedBefore {
		t.Errorf("the same once more: %v", err)
	}

	if err := u.Begin(two.index, upgrade.Options{Again: true}, upgrade.Facts{}); err != nil {
		t.Errorf("as a person wants it: %v", err)
	}
}

// TestAFailureIsRememberedWithItsEvidence has the agent stop while it looks for
// it.
func TestAFailureIsRememberedWithItsEvidence(t *testing.T) {
	c := newCourse(t, "1.0.0", "2.0.0")
	c.upgrade("2.0.0", upgrade.Options{})
	c.run(upgrade.Verdict{Word: upgrade.Bad, Reason: "ill"})
	c.boot()
	ctx, stop := context.WithCancel(t.Context())
	c.node().evidence = func(ctx context.Context) []string {
		stop()
		if ctx.Err() != nil {
			return nil
		}
		return []string{"it says why"}
	}

	if _, err := c.u.Run(ctx, upgrade.Verdict{}, packOnly(noPack{})); !errors.Is(err,
		context.Canceled) {
		t.Fatal(err)
	}

	c.run(upgrade.Verdict{})
	failed, err := upgrade.Failures(c.recorder)
	if err != nil || len(failed) != 1 || len(failed[0].Evidence) != 1 {
		t.Errorf("remembers %+v, %v", failed, err)
	}
}

// TestVersionsMayRankTheSame: the loader would start either.
func TestVersionsMayRankTheSame(t *testing.T) {
	c := newCourse(t, "1.0.0", "01.0.0")
	c.upgrade("01.0.0", upgrade.Options{})
	c.run(upgrade.Verdict{Word: upgrade.Good})
	if c.running.Version != "01.0.0" {
		t.Errorf("%s runs", c.running.Version)
	}

	c.boot()
	if c.running.Version != "01.0.0" {
		t.Errorf("%s runs then", c.running.Version)
	}

	c.back("1.0.0")
}

// TestARefusalWritesNothing: neither does a refusal by the firmware's
// variables, by the battery or by the UKI on the ESP.
func TestARefusalWritesNothing(t *testing.T) {
	c := newCourse(t, "1.0.0", "2.0.0", "3.0.0")
	c.upgrade("2.0.0", upgrade.Options{})
	c.run(upgrade.Verdict{Word: upgrade.Good})
	signed := signedImage(t)
	next := c.releases[2].index
	next.Authenticode = &signed
	authority := firmware.SignatureList(string(efivar.X509), string(signed.Signatures[0][1]))
	signer := firmware.SignatureList(string(efivar.X509), string(signed.Signatures[0][0]))
	digest := firmware.Digest(t, c.releases[0].uki)

	onBattery := fstest.MapFS{}
	for attribute, value := range map[string]string{
		"type":     "Battery",
		"status":   "Discharging",
		"capacity": "10",
	} {
		onBattery["class/power_supply/BAT0/"+
			attribute] = &fstest.MapFile{Data: []byte(value + "\n")}
	}

	begin := func() error { return c.u.Begin(next, upgrade.Options{}, upgrade.Facts{}) }
	back := func() error { _, err := c.u.Rollback(upgrade.Options{}, false); return err }
	for _, test := range []struct {
		name string
		sys  fstest.MapFS
		do   func() error
		code fault.Code
	}{
		{
			"an upgrade by a signer absent from db",
			firmware.SecureBoot(nil, nil),
			begin,
			fault.NotInDB,
		},
		{
			"an upgrade by a signer in dbx",
			firmware.SecureBoot(authority, signer),
			begin,
			fault.ForbiddenByDBX,
		},
		{"an upgrade on battery", onBattery, begin, fault.BatteryLow},
		{
			"back to a UKI that is not signed",
			firmware.SecureBoot(authority, nil),
			back,
			fault.UKINotSigned,
		},
		{
			"back to a UKI that is in dbx",
			firmware.SecureBoot(nil, digest),
			back,
			fault.ForbiddenByDBX,
		},
	} {
		written := len(c.events)
		files := maps.Clone(c.files)
		c.u.Sys = test.sys
		refusedWith(t, test.do(), test.code)
		if len(c.events) != written || !maps.EqualFunc(files, c.files, bytes.Equal) {
			t.Errorf("%s: %d writes", test.name, len(c.events)-written)
		}
	}

	for _, sys := range []fstest.MapFS{
		firmware.SecureBoot([]byte("no list"), nil), firmware.SecureBoot(nil, []byte("no list")),
	} {
		c.u.Sys = sys
		if begin() == nil || back() == nil {
			t.Error("begun, though it is unknown what the firmware starts")
		}
	}

	c.u.Sys = firmware.SecureBoot(append(authority, digest...), nil)
	if err := errors.Join(back(), begin()); err != nil {
		t.Errorf("what the firmware starts: %v", err)
	}
}

// signedImage is signed by the first of its certificates, which the second has
// issued.
func signedImage(t testing.TB) authenticode.Image {
	t.Helper()
	return firmware.Image(t, "../../../firmware/authenticode/testdata/signed.efi")
}

// refusedWith fails unless an error is a refusal of that code, or none for "".
func refusedWith(t *testing.T, err error, code fault.Code) {
	t.Helper()
	if fault.Of(err) != code {
		t.Errorf("error %v, want code %s", err, code)
	}
}
