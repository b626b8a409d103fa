package node

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/firmware/loader"
	"github.com/loam-os/loam/firmware/uki"
	"github.com/loam-os/loam/image/bundle"
	"github.com/loam-os/loam/image/initramfs"
	"github.com/loam-os/loam/test/judge"
	published "github.com/loam-os/loam/test/updates"
)

// next is the build of the version after the one under test.
func next(t *testing.T) build {
	t.Helper()
	dir := os.Getenv("LOAM_BUILD_NEXT")
	if dir == "" {
		if os.Getenv("CI") != "" {
			t.Fatal("LOAM_BUILD_NEXT is not set")
		}
		t.Skip("needs a build of the next version: make test sets LOAM_BUILD_NEXT")
	}
	return buildIn(t, dir)
}

// updates is a repository with a release, on a web server of this host's
// loopback.
type updates struct {
	published.Repository
	*httptest.Server
}

// publish puts the build into a repository of its own, with another UKI than it
// has if change is not nil.
func (b build) publish(t *testing.T, change func(uki.Sections) uki.Sections) updates {
	t.Helper()
	efi := b.file(".efi")
	if change != nil {
		efi = filepath.Join(t.TempDir(), filepath.Base(efi))
		if err := os.WriteFile(efi, b.rebuilt(t, change), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	return b.publishUKI(t, efi)
}

// publishUKI publishes the build with another UKI.
func (b build) publishUKI(t *testing.T, efi string) updates {
	t.Helper()
	m := b.manifest
	r := published.New(t)
	r.Publish(bundle.Sources{
		ImageID:  m.ImageID,
		Version:  m.Version,
		Arch:     m.Arch,
		Profile:  m.Profile,
		RootHash: m.RootHash,
	}, b.file(".root"), b.file(".verity"), efi)

	server := httptest.NewServer(http.FileServer(http.Dir(r.Dir)))
	t.Cleanup(server.Close)
	return updates{r, server}
}

// rebuilt is the build's UKI with other sections.
func (b build) rebuilt(t *testing.T, change func(uki.Sections) uki.Sections) []byte {
	t.Helper()
	text := readFile(t, b.file(".efi"))
	sections, err := uki.Parse(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}

	stub := readFile(t,
		filepath.Join(judge.Dir(t, "LOAM_TOOLS_TREE"), loader.Stub(b.manifest.Arch)))
	var own []uki.Section
	for _, s := range change(sections) {
		for _, name := range uki.Names() {
			if s.Name == name {
				own = append(own, s)
			}
		}
	}

	made, err := uki.Build(stub, own)
	if err != nil {
		t.Fatal(err)
	}

	return made
}

// withCmdline adds to the command line of a UKI.
func withCmdline(more string) func(*testing.T) func(uki.Sections) uki.Sections {
	return func(*testing.T) func(uki.Sections) uki.Sections {
		return func(all uki.Sections) uki.Sections {
			for i, s := range all {
				if s.Name == ".cmdline" {
					all[i].Data = []byte(strings.TrimRight(string(s.Data), "\x00") + " " + more)
				}
			}
			return all
		}
	}
}

// withInit makes the program of a directory /init.
func withInit(program string) func(*testing.T) func(uki.Sections) uki.Sections {
	return func(t *testing.T) func(uki.Sections) uki.Sections {
		binary := filepath.Join(t.TempDir(), "init")
		build := exec.Command("go", "build", "-o", binary, program)
		build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOARCH="+open(t).manifest.Arch)
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}

		text := readFile(t, binary)
		var archive bytes.Buffer
		err := initramfs.Write(&archive, []initramfs.Entry{{Path: "init", Mode: 0o755, Data: text}})
		if err != nil {
			t.Fatal(err)
		}

		return func(all uki.Sections) uki.Sections {
			for i, s := range all {
				if s.Name == ".initrd" {
					all[i].Data = archive.Bytes()
				}
			}
			return all
		}
	}
}

// machineYAML is the part of machine.yaml that names the repository, as a guest
// reaches it.
func (u updates) machineYAML() string {
	_, port, _ := strings.Cut(u.Listener.Addr().String(), ":")
	return "upgrade:\n  repository: http://10.0.2.2:" + port + "\n  trial: 2m\n" +
		"  root: " + strconv.Quote(string(u.Root())) + "\n"
}

// upgradable is a machine that runs the hello example, and may reach a
// repository. Each of its starts is one from cold.
type upgradable struct {
	*machine
	credentials map[string]string
	*node

	// prepare is called before each start, leave is a command before each
	// restart.
	prepare func()
	leave   string
}

func newUpgradable(t *testing.T, u updates) *upgradable {
	t.Helper()
	n := prepareUpgradable(t, u)
	n.firstStart()
	return n
}

// prepareUpgradable prepares a machine and leaves it off.
func prepareUpgradable(t *testing.T, u updates) *upgradable {
	t.Helper()
	b := open(t)
	hello := readFile(t, "../../examples/hello.yaml")
	m := b.flash(t, b.file(".raw"))
	m.config.Host = true
	m.config.NoReboot = true
	n := &upgradable{
		machine: m,
		credentials: map[string]string{
			"loam.machine": machineYAML(b.manifest.Arch,
				"source: {credential: {name: loam.config}}\n"+u.machineYAML()),
			"loam.config": string(hello),
		},
	}

	n.unlayer()
	return n
}

// firstStart waits until it runs the hello example.
func (n *upgradable) firstStart() {
	n.machine.t.Helper()
	n.start()
	n.up()
	n.says(func(s status.Status) bool { return s.Phase == status.Applied && s.Change == nil })
}

// unlayer gives the machine a raw disk, which others can read while it is on.
func (n *upgradable) unlayer() {
	n.machine.t.Helper()
	raw := filepath.Join(n.config.Dir, "disk.raw")
	n.tool("qemu-img", "convert", "-O", "raw", n.config.Disk, raw)
	n.config.Disk = raw
}

// nowFrom has the machine know another repository from its next start on.
func (n *upgradable) nowFrom(old, u updates) {
	n.credentials["loam.machine"] = strings.Replace(n.credentials["loam.machine"],
		old.machineYAML(), u.machineYAML(), 1)
}

// disk is the machine's, for judges.
func (n *upgradable) disk() judge.Disk {
	n.machine.t.Helper()
	return judge.Disk{
		File:       n.config.Disk,
		SectorSize: n.config.SectorSize,
		ESPStart:   n.partition(esp),
		ESPSize:    n.partition(sigA) - n.partition(esp),
	}
}

// entries are the names of the boot entries.
func (n *upgradable) entries() string {
	n.node.t.Helper()
	return n.tool("mdir", "-b", "-i",
		fmt.Sprint(n.config.Disk, "@@", n.partition(esp)), "::/EFI/Linux")
}

// start switches the machine on, which is off.
func (n *upgradable) start() {
	if n.prepare != nil {
		n.prepare()
	}
	n.node = n.on(n.machine.t, n.credentials)
}

// reboot has the system restart the machine, and switches it on again.
func (n *upgradable) reboot() {
	n.node.t.Helper()
	if n.leave != "" {
		n.sh(n.leave)
	}

	fmt.Fprintln(n.Shell(), "systemctl reboot")
	n.ended()
	n.start()
}

var bootLine = regexp.MustCompile(`loam-node-os (\S+), slot (\S), .*`)

// up waits for the agent of the system that starts.
func (n *upgradable) up() {
	n.node.t.Helper()
	n.shell()
	n.sh("until test -e /run/loam/status.json; do sleep 0.2; done")
}

// boots waits for /init, and says which version it starts from which slot.
func (n *upgradable) boots(version, slot string) {
	n.node.t.Helper()
	if got := n.expect(bootLine); got[1] != version || got[2] != slot {
		n.node.t.Fatalf("boots %s from slot %s, want %s from %s", got[1], got[2], version, slot)
	}
}

// onESP is where a file of the ESP is, for mtools.
func (n *upgradable) onESP(path string) []string {
	return []string{"-i", fmt.Sprint(n.config.Disk, "@@", n.partition(esp)), "::" + path}
}

// loader is the boot loader on the disk.
func (n *upgradable) loader() []byte {
	n.machine.t.Helper()
	return []byte(n.tool("mtype", n.onESP(loader.Path(n.build.manifest.Arch))...))
}

// age has the disk have an older boot loader than the images bring: the same,
// but for what it says.
func (n *upgradable) age() {
	n.machine.t.Helper()
	old := bytes.Replace(n.loader(), []byte("systemd-boot 257."), []byte("systemd-boot 250."), -1)
	file := filepath.Join(n.config.Dir, "loader.efi")
	if err := os.WriteFile(file, old, 0o644); err != nil {
		n.machine.t.Fatal(err)
	}

	to := n.onESP(loader.Path(n.build.manifest.Arch))
	n.tool("mcopy", "-o", to[0], to[1], file, to[2])
}

// TestUpgrades has a machine fall back from a system whose kernel panics, then
// upgrade to a good one, and go back to the first. It takes longest, so its file
// is the first of the package: the first test starts at once, the others in any
// order.
func TestUpgrades(t *testing.T) {
	parallel(t, 8*time.Minute)
	v2 := next(t)
	panics := v2.publish(t, bad["its kernel panics"].change(t))
	u := v2.publish(t, nil)
	n := prepareUpgradable(t, panics)
	loader := n.loader()
	n.age()
	n.firstStart()

	first, second := open(t).manifest.Version, v2.manifest.Version
	n.wantBegin("loam upgrade --plan", "would bring "+second+" in place of ")
	n.sh("loam upgrade --stay")
	n.nowFrom(panics, u)
	n.fallsBack(second, bad["its kernel panics"].why)

	begin := time.Now()
	n.sh("loam upgrade --again --now --stay")
	t.Logf("staged after %s", time.Since(begin))
	n.want("cat /var/run/reboot-required", "Loam "+second+" is ready: the next restart tries it")
	begin = time.Now()
	n.reboot()
	n.boots(second, "b")
	n.up()

	n.says(func(s status.Status) bool {
		return s.Upgrade != nil && s.Upgrade.Phase == "" && s.Phase == status.Applied
	})

	t.Logf("blessed after %s", time.Since(begin))
	if !bytes.Equal(n.loader(), loader) {
		t.Error("the boot loader is not the one in the new system")
	}

	n.want("loam why", "nothing has gone wrong on this node; it runs loam-node-os "+second)
	runs, other := v2, open(t)
	if !testing.Short() {
		n.back(first, "a")
		n.back(second, "b")
		n.back(first, "a")
		n.reboot()
		n.boots(first, "a")
		n.up()
		runs, other = other, runs
	}

	n.off()
	judged(t, n.disk(), u, runs, other)
}

// back goes to the other system without a repository, and sees it stay.
func (n *upgradable) back(version, slot string) {
	n.node.t.Helper()
	n.wantBegin("loam rollback --os --plan", "would bring "+version+" in place of ")
	n.sh("loam rollback --os --stay")
	n.reboot()
	n.boots(version, slot)
	n.up()

	n.says(func(s status.Status) bool {
		return s.Upgrade != nil && s.Upgrade.Phase == "" && s.Phase == status.Applied
	})
}

// bad are changes of a UKI that make a system which must not stay, and what the
// old one then says of it.
var bad = map[string]struct {
	change func(t *testing.T) func(uki.Sections) uki.Sections
	why    string
}{
	"its kernel panics": {
		withCmdline("rdinit=/nothing"),
		"it did not say that it is well in 3 boots",
	},
	"it hangs in /init": {
		withInit("./testdata/hang"),
		"it did not say that it is well in 3 boots",
	},
	"it ends in rescue": {withCmdline("systemd.unit=nowhere.target"), ""},
	"its agent is dead": {
		withCmdline("systemd.setenv=GOMEMLIMIT=none"),
		"it did not say that it is well in 3 boots",
	},
	"it has no network": {
		withCmdline("module_blacklist=virtio_net"),
		"gateway: there is no default route",
	},
}

func TestABadSystemFallsBack(t *testing.T) {
	if os.Getenv("LOAM_ALL") == "" {
		t.Skip("takes minutes, and TestUpgrades has one: make upgrades runs it")
	}

	parallel(t, 4*time.Minute)
	v2 := next(t)
	for name, bad := range bad {
		t.Run(name, func(t *testing.T) {
			n := newUpgradable(t, v2.publish(t, bad.change(t)))
			n.sh("loam upgrade --stay")
			n.fallsBack(v2.manifest.Version, bad.why)
			n.off()
		})
	}
}

// fallsBack has the machine try that version, which is armed: it comes back to
// the system in slot a, says why, and does not try it again.
func (n *upgradable) fallsBack(version, why string) {
	t := n.node.t
	t.Helper()
	begin := time.Now()
	n.reboot()

	for starts := 1; !n.startsSlot("a"); starts++ {
		if starts > 3 {
			t.Fatalf("start %d is one of the bad system", starts)
		}
		n.start()
	}

	t.Logf("back after %s", time.Since(begin))
	n.up()

	n.says(func(s status.Status) bool {
		return s.Upgrade != nil && len(s.Upgrade.Failed) == 1 && s.Upgrade.Phase == "" &&
			s.Phase == status.Applied
	})

	out := n.sh("loam why")
	if !strings.HasPrefix(out, version+" failed on ") || !strings.Contains(out, why) {
		t.Errorf("loam why: %s", out)
	}
	if out := n.sh("loam upgrade 2>&1; true"); !strings.Contains(out, "failed here on") {
		t.Errorf("the same again: %s", out)
	}
}

// TestAnUpgradeSurvivesPowerCuts has a node upgrade itself while its machine is
// killed again and again, LOAM_CUTS times: it always comes back, and ends with
// the new system.
func TestAnUpgradeSurvivesPowerCuts(t *testing.T) {
	cuts, err := strconv.Atoi(os.Getenv("LOAM_CUTS"))
	if err != nil {
		t.Skip("takes an hour: make crash-long sets LOAM_CUTS")
	}

	v2 := next(t)
	u := v2.publish(t, nil)
	n := newUpgradable(t, u)
	n.off()
	first := open(t).manifest.Version
	second := v2.manifest.Version
	n.credentials["loam.machine"] = strings.Replace(n.credentials["loam.machine"], "  trial: 2m\n",
		"  trial: 2m\n  pace: 1s\n  version: "+second+"\n", 1)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	killed := 0
	for i := range cuts {
		n.start()
		after := time.Duration(random.Int64N(int64(110 * time.Second)))
		select {
		case <-n.Done(): // It has restarted to try the new system, or to go back.
		case <-time.After(after):
			if err := n.Kill(); err != nil {
				t.Fatal(err)
			}
			killed++
		}

		if i%5 == 4 { // It comes up with either, and goes on.
			n.start()
			n.up()
			t.Logf("after %d cuts: %s",
				killed, n.sh("loam status | sed -n '/image\\|upgrade\\|trial\\|failed/p'"))

			if version := n.status().ImageVersion; version != first && version != second {
				t.Fatalf("version %s runs", version)
			}

			again := n.status().Upgrade
			if again != nil && len(again.Failed) > 0 { // Its tries were used up by cuts.
				n.sh("loam upgrade --again --now --stay")
			}

			if n.status().ImageVersion == second { // The way back is cut at all times, too.
				n.sh("loam rollback --os --stay; true")
			}

			if err := n.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}

	for deadline := time.Now().Add(10 * stepTimeout); ; {
		n.start()
		if !n.stays(second, deadline) {
			continue
		}
		n.off()
		return
	}
}

// stays waits until a system has proven itself, or the machine restarts. One
// whose tries were used up is asked for again.
func (n *upgradable) stays(version string, deadline time.Time) bool {
	n.node.t.Helper()
	for time.Now().Before(deadline) {
		ctx, cancel := context.WithTimeout(n.node.t.Context(), stepTimeout)
		err := n.Shell().Open(ctx)
		var text string
		if err == nil {
			text, err = n.Shell().Run(ctx,
				"loam upgrade --again --now --stay >/dev/null 2>&1; cat /run/loam/status.json")
		}

		cancel()
		select {
		case <-n.Done():
			return false
		case <-time.After(2 * time.Second):
		}

		s, parseErr := status.Parse([]byte(text))
		switch {
		case err != nil || parseErr != nil || s.Upgrade == nil:
		case s.ImageVersion == version && s.Upgrade.Phase == "":
			return true
		case s.Upgrade.Phase == "armed":
			fmt.Fprintln(n.Shell(), "systemctl reboot")
			n.ended()
			return false
		}
	}

	n.node.t.Fatalf("version %s does not stay\n%s", version, n.Console().Tail(20))
	return false
}

// TestADrillFallsBack has the running system fail on purpose.
func TestADrillFallsBack(t *testing.T) {
	if os.Getenv("LOAM_ALL") == "" {
		t.Skip("takes minutes: make upgrades runs it")
	}

	for by, boots := range map[string]int{"panic": 3, "check": 1} {
		t.Run("by "+by, func(t *testing.T) {
			n := newUpgradable(t, next(t).publish(t, nil))
			fmt.Fprintln(n.Shell(), "loam drill --by "+by)
			n.ended()

			for range boots {
				n.start()
				n.ended()
			}

			n.start()
			n.up()

			n.says(func(s status.Status) bool {
				return s.Upgrade != nil && s.Upgrade.Drill != nil && s.Upgrade.Phase == "" &&
					s.Phase == status.Applied
			})

			t.Log(n.sh("loam status"))
			out := n.sh("loam status")
			if !strings.Contains(out, fmt.Sprintf("by %s, ", by)) ||
				!strings.Contains(out, fmt.Sprintf(", tries: %d", boots)) {
				t.Errorf("loam status: %s", out)
			}

			n.off()
		})
	}
}

// startsSlot waits for /init to start a system from that slot, or for the
// machine to be off.
func (n *upgradable) startsSlot(slot string) bool {
	n.node.t.Helper()
	ctx, cancel := context.WithTimeout(n.node.t.Context(), 3*stepTimeout)
	defer cancel()

	go func() {
		select {
		case <-n.Done():
			cancel()
		case <-ctx.Done():
		}
	}()

	for next := 0; ; {
		_, got, after, err := n.Console().Expect(ctx, next, bootLine)
		if err != nil {
			break
		}
		if got[2] == slot {
			return true
		}
		next = after
	}

	select {
	case <-n.Done(): // A moment after its console.
	case <-time.After(time.Minute):
		n.node.t.Fatalf("it neither starts slot %s nor ends\n%s", slot, n.Console().Tail(20))
	}

	return false
}
