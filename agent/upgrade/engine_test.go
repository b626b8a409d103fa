package upgrade

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"testing"
	"testing/fstest"

	"github.com/loam-os/loam/firmware/efivar"
	"github.com/loam-os/loam/test/firmware"
)

// step runs the upgrader to where it waits for something else.
func step(t testing.TB, u *Upgrader, v Verdict, pack Packed) Op {
	t.Helper()
	op, err := u.Run(t.Context(), v, pack)
	if err != nil {
		t.Fatalf("%s: %v", op.Kind, err)
	}
	return op
}

func TestAnUpgradeThatIsGoodStays(t *testing.T) {
	p, disk := newPlant(t, "1.0.0", "2.0.0")
	one, two := p.releases[0], p.releases[1]
	r := newRecorder(disk, nil)
	u := p.upgrader(r, one.System)
	if op := step(t, u, Verdict{}, nil); op.Kind != Nothing {
		t.Fatalf("a node with nothing to do: %v", op)
	}
	if err := u.Begin(two.index, Wish{Ref: "r"}, Facts{}); err != nil {
		t.Fatal(err)
	}
	if op := step(t, u, Verdict{}, p.pack("2.0.0")); op.Kind != Reboot {
		t.Fatalf("after staging: %v", op)
	}
	runs, err := p.boot(r.Memory)
	if err != nil || runs != two.System {
		t.Fatalf("boots %v %v", runs, err)
	}
	u = p.upgrader(r, runs)
	if op := step(t, u, Verdict{}, nil); op.Kind != Observe {
		t.Fatalf("on trial: %v", op)
	}
	if op := step(t, u, Verdict{Word: Good}, nil); op.Kind != Nothing {
		t.Fatalf("after the verdict: %v", op)
	}
	if j, err := ReadJournal(r); j != nil || err != nil {
		t.Errorf("journal %v %v", j, err)
	}
	for range 5 {
		if runs, err = p.boot(r.Memory); err != nil || runs != two.System {
			t.Fatalf("later boots %v %v", runs, err)
		}
	}
	if err := u.Begin(two.index, Wish{}, Facts{}); !errors.As(err, new(*Refusal)) {
		t.Errorf("the same once more: %v", err)
	}
}

func TestAnUpgradeThatNeverComesUpFallsBackAndIsRemembered(t *testing.T) {
	p, disk := newPlant(t, "1.0.0", "2.0.0")
	one, two := p.releases[0], p.releases[1]
	r := newRecorder(disk, nil)
	u := p.upgrader(r, one.System)
	if err := u.Begin(two.index, Wish{}, Facts{}); err != nil {
		t.Fatal(err)
	}
	step(t, u, Verdict{}, p.pack("2.0.0"))
	for i := range Tries {
		if runs, err := p.boot(r.Memory); err != nil || runs != two.System {
			t.Fatalf("boot %d: %v %v", i, runs, err)
		}
	}
	runs, err := p.boot(r.Memory)
	if err != nil || runs != one.System {
		t.Fatalf("after %d boots that failed: %v %v", Tries, runs, err)
	}
	u = p.upgrader(r, runs)
	if op := step(t, u, Verdict{}, nil); op.Kind != Nothing {
		t.Errorf("after the fallback: %v", op)
	}
	failed, err := Failures(r)
	if err != nil || len(failed) != 1 || (System{failed[0].Version, failed[0].RootHash}) != two.System {
		t.Errorf("remembers %v %v", failed, err)
	}
	err = u.Begin(two.index, Wish{}, Facts{})
	if refusal, is := errors.AsType[*Refusal](err); !is || refusal.Code != CodeFailed {
		t.Errorf("the same once more: %v", err)
	}
	if err := u.Begin(two.index, Wish{Again: true}, Facts{}); err != nil {
		t.Errorf("as a person wants it: %v", err)
	}
}

// TestAFailureIsRememberedWithItsEvidence has the agent stop while it looks for it.
func TestAFailureIsRememberedWithItsEvidence(t *testing.T) {
	c := newCourse(t, "1.0.0", "2.0.0")
	c.upgrade("2.0.0", Wish{})
	c.run(Verdict{Word: Bad, Reason: "ill"})
	c.boot()
	ctx, stop := context.WithCancel(t.Context())
	c.u.Evidence = func(ctx context.Context, _ Journal) []string {
		if stop(); ctx.Err() != nil {
			return nil
		}
		return []string{"it says why"}
	}
	if _, err := c.u.Run(ctx, Verdict{}, noPack{}); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	c.run(Verdict{})
	if failed, err := Failures(c.recorder); err != nil || len(failed) != 1 || len(failed[0].Evidence) != 1 {
		t.Errorf("remembers %+v, %v", failed, err)
	}
}

// TestVersionsMayRankTheSame: the loader would start either.
func TestVersionsMayRankTheSame(t *testing.T) {
	c := newCourse(t, "1.0.0", "01.0.0")
	c.upgrade("01.0.0", Wish{})
	if c.run(Verdict{Word: Good}); c.running.Version != "01.0.0" {
		t.Errorf("%s runs", c.running.Version)
	}
	c.boot()
	if c.running.Version != "01.0.0" {
		t.Errorf("%s runs then", c.running.Version)
	}
	c.back("1.0.0")
}

// TestARefusalWritesNothing: neither does one that goes by the firmware's variables, by the battery or by the UKI on the ESP.
func TestARefusalWritesNothing(t *testing.T) {
	c := newCourse(t, "1.0.0", "2.0.0", "3.0.0")
	c.upgrade("2.0.0", Wish{})
	c.run(Verdict{Word: Good})
	signed := signedImage(t)
	next := c.releases[2].index
	next.Authenticode = &signed
	authority, signer := firmware.SignatureList(string(efivar.X509), string(signed.Signatures[0][1])), firmware.SignatureList(string(efivar.X509), string(signed.Signatures[0][0]))
	digest := firmware.Digest(t, c.releases[0].uki)
	onBattery := fstest.MapFS{}
	for attribute, value := range map[string]string{"type": "Battery", "status": "Discharging", "capacity": "10"} {
		onBattery["class/power_supply/BAT0/"+attribute] = &fstest.MapFile{Data: []byte(value + "\n")}
	}
	begin := func() error { return c.u.Begin(next, Wish{}, Facts{}) }
	back := func() error { _, err := c.u.Back(Wish{}, false); return err }
	for _, test := range []struct {
		name string
		sys  fstest.MapFS
		do   func() error
		code string
	}{
		{"an upgrade by nobody that db knows", firmware.SecureBoot(nil, nil), begin, CodeNotInDB},
		{"an upgrade by somebody in dbx", firmware.SecureBoot(authority, signer), begin, CodeForbidden},
		{"an upgrade on battery", onBattery, begin, CodeBattery},
		{"back to a UKI that is not signed", firmware.SecureBoot(authority, nil), back, CodeUnsigned},
		{"back to a UKI that is in dbx", firmware.SecureBoot(nil, digest), back, CodeForbidden},
	} {
		written, files := len(c.events), maps.Clone(c.files)
		c.u.Sys = test.sys
		refusedWith(t, test.do(), test.code)
		if len(c.events) != written || !maps.EqualFunc(files, c.files, bytes.Equal) {
			t.Errorf("%s: %d writes", test.name, len(c.events)-written)
		}
	}
	for _, sys := range []fstest.MapFS{firmware.SecureBoot([]byte("no list"), nil), firmware.SecureBoot(nil, []byte("no list"))} {
		c.u.Sys = sys
		if begin() == nil || back() == nil {
			t.Error("begun, though nobody knows what the firmware starts")
		}
	}
	c.u.Sys = firmware.SecureBoot(append(authority, digest...), nil)
	if err := errors.Join(back(), begin()); err != nil {
		t.Errorf("what the firmware starts: %v", err)
	}
}
