// Package node tests the finished image as a whole machine: firmware, loader,
// kernel, /init, systemd and agent, in QEMU.
//
// make upgrades runs upgrades here with systems that panic, hang, are dead,
// have no network or a kubelet that never gets Ready, with firmware that
// forgets its variables, and with sectors of 4096 bytes. systemd's own tools
// read the disk afterwards. KVM is used where the processor has it and a trial
// passes; otherwise emulation.
package node

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/image/manifest"
	"github.com/loam-os/loam/image/tools"
	"github.com/loam-os/loam/test/judge"
	"github.com/loam-os/loam/test/vm"
)

// stepTimeout is for one thing to happen on an emulated machine that shares its
// host.
const stepTimeout = 4 * time.Minute

var (
	verifiedLine = regexp.MustCompile(`root [0-9a-f]+ verified`)
	appliedLine  = regexp.MustCompile(`loam: applied generation (\S+) after`)
	failedPhase  = regexp.MustCompile(`phase +(failed|running \d+, .* refused)`)
)

// build is the image under test.
type build struct {
	dir      string
	manifest manifest.Manifest
	tools    tools.Tree
}

// open finds the build that `make test` has made.
func open(t *testing.T) build {
	t.Helper()
	dir := os.Getenv("LOAM_BUILD")
	tree := os.Getenv("LOAM_TOOLS_TREE")
	if dir == "" || tree == "" {
		if os.Getenv("CI") != "" {
			t.Fatal("LOAM_BUILD or LOAM_TOOLS_TREE is not set")
		}
		t.Skip("needs a finished build: make test sets LOAM_BUILD and LOAM_TOOLS_TREE")
	}

	b := buildIn(t, dir)
	b.tools = tools.Tree{Dir: tree}
	return b
}

// buildIn is the build in a directory, without tools.
func buildIn(t *testing.T, dir string) build {
	t.Helper()
	text := readFile(t, filepath.Join(dir, "manifest.json"))
	m, err := manifest.Decode(text)
	if err != nil {
		t.Fatal(err)
	}

	return build{dir: dir, manifest: m}
}

func (b build) file(suffix string) string {
	found, _ := filepath.Glob(filepath.Join(b.dir, "*"+suffix))
	return found[0]
}

// machine is a computer with a disk; it can be switched on many times.
type machine struct {
	t      *testing.T
	build  build
	config vm.Config
}

// flash makes a machine whose disk is layered over the raw image base.
func (b build) flash(t *testing.T, base string) *machine {
	t.Helper()
	dir, err := os.MkdirTemp("", "loam") // t.TempDir is too long for a socket's name
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	m := &machine{t: t, build: b}
	m.config, err = vm.Prepare(t.Context(), b.tools.Dir, m.run(dir, base), vm.Image{
		Arch:       b.manifest.Arch,
		Base:       base,
		DiskSize:   "8G",
		SectorSize: b.manifest.SectorSize,
	}, dir)
	if err != nil {
		t.Fatal(err)
	}

	// Two emulated processors cost more than one.
	m.config.CPUs = judge.Pick(1, m.config.CPUs)

	return m
}

func (m *machine) run(dirs ...string) vm.Runner {
	return func(ctx context.Context, name string, args ...string) *exec.Cmd {
		return m.build.tools.Command(ctx, append(dirs, m.build.dir), name, args...)
	}
}

// tool runs a program of the tools tree that sees the machine's directory.
func (m *machine) tool(name string, args ...string) string {
	m.t.Helper()
	out, err := m.run(m.config.Dir)(m.t.Context(), name, args...).CombinedOutput()
	if err != nil {
		m.t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// node is a machine that is switched on.
type node struct {
	*vm.VM
	t    *testing.T
	next int // line of the console after what was expected last
}

// on switches the machine on with these credentials.
func (m *machine) on(t *testing.T, credentials map[string]string) *node {
	t.Helper()
	c := m.config
	c.Credentials = credentials
	dirs := []string{c.Dir}
	if c.Disk != "" {
		dirs = append(dirs, filepath.Dir(c.Disk))
	}

	v, err := vm.Start(t.Context(), m.run(dirs...), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = v.Kill() })

	return &node{VM: v, t: t}
}

// expect waits for a line on the console.
func (n *node) expect(pattern *regexp.Regexp) []string {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), stepTimeout)
	defer cancel()

	_, groups, next, err := n.Console().Expect(ctx, n.next, pattern)
	if err != nil {
		n.t.Fatal(err)
	}

	n.next = next
	return groups
}

// applied waits until a generation is applied, and returns its name.
func (n *node) applied() string { n.t.Helper(); return n.expect(appliedLine)[1] }

// shell opens the debug shell. Until /init runs, what is typed on the terminal
// would be keys for the boot menu.
func (n *node) shell() {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), stepTimeout)
	defer cancel()

	if _, _, _, err := n.Console().Expect(ctx, 0, verifiedLine); err != nil {
		n.t.Fatal(err)
	}

	if err := n.Shell().Open(ctx); err != nil {
		n.t.Fatalf("%v\n%s", err, n.Console().Tail(20))
	}
}

// sh runs a command on the node, which must succeed.
func (n *node) sh(command string) string {
	n.t.Helper()
	return n.shWithin(stepTimeout, command)
}

// shWithin is [node.sh] for a command that may take longer.
func (n *node) shWithin(limit time.Duration, command string) string {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), limit)
	defer cancel()

	out, err := n.Shell().Run(ctx, command)
	if err != nil {
		n.t.Fatal(err)
	}

	return out
}

// want fails unless the command's output is this.
func (n *node) want(command, output string) {
	n.t.Helper()
	if got := n.sh(command); got != output {
		n.t.Errorf("%s: %q, want %q", command, got, output)
	}
}

// wantBegin fails unless the command's output begins so.
func (n *node) wantBegin(command, begin string) {
	n.t.Helper()
	if got := n.sh(command); !strings.HasPrefix(got, begin) {
		n.t.Errorf("%s: %q, want it to begin with %q", command, got, begin)
	}
}

func (n *node) status() status.Status {
	n.t.Helper()
	s, err := status.Parse([]byte(n.sh("loam status -o json")))
	if err != nil {
		n.t.Fatal(err)
	}
	return s
}

// pollPause is the pause between two questions to a machine, which has no time
// for anything else while it answers: an emulated one begins a program in a second.
const pollPause = 2 * time.Second

// says waits until the status is as it should be: it comes a moment after what
// it tells of.
func (n *node) says(right func(status.Status) bool) {
	n.t.Helper()
	for end := time.Now().Add(stepTimeout); ; {
		s := n.status()
		if right(s) {
			return
		}
		if time.Now().After(end) {
			n.t.Fatalf("status %+v, error %+v, upgrade %+v, network %+v",
				s, s.Error, s.Upgrade, s.Network)
		}
		time.Sleep(pollPause)
	}
}

// invocations are the InvocationIDs of units by name.
func (n *node) invocations(units ...string) map[string]string {
	n.t.Helper()
	ids := map[string]string{}
	for i, id := range strings.Fields(
		n.sh("systemctl show -P InvocationID " + strings.Join(units, " ")),
	) {
		ids[units[i]] = id
	}

	if len(ids) != len(units) {
		n.t.Fatalf("InvocationIDs of %v: only %v", units, ids)
	}

	return ids
}

// write puts a file on the node atomically.
func (n *node) write(path, text string) {
	n.t.Helper()
	// Short lines: a terminal takes 4095 bytes of one.
	n.sh("mkdir -p " + filepath.Dir(path) + "; rm -f /run/upload")
	for len(text) > 0 {
		part := text[:min(len(text), 1500)]
		text = text[len(part):]
		n.sh(fmt.Sprintf("printf '%%s' '%s' >>/run/upload", strings.ReplaceAll(part, "'", `'\''`)))
	}
	n.sh("cp /run/upload " + path + ".part && mv " + path + ".part " + path)
}

// off types poweroff into the shell and waits.
func (n *node) off() {
	n.t.Helper()
	fmt.Fprintln(n.Shell(), "systemctl poweroff")
	n.ended()
}

// ended waits until the machine is off.
func (n *node) ended() {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), stepTimeout)
	defer cancel()
	if err := n.Wait(ctx); err != nil {
		n.t.Fatalf("%v\n%s", err, n.Console().Tail(20))
	}
}

// pressPowerButton presses it until the machine is off: a press before logind
// listens is lost, as on any machine.
func (n *node) pressPowerButton() {
	n.t.Helper()
	again := time.NewTicker(5 * time.Second)
	defer again.Stop()

	giveUp := time.After(stepTimeout)
	for {
		if err := n.PowerOff(); err != nil {
			select {
			case <-n.Done(): // between two presses
				return
			default:
				n.t.Fatal(err)
			}
		}
		select {
		case <-n.Done():
			return
		case <-again.C:
		case <-giveUp:
			n.t.Fatalf("the power button does nothing\n%s", n.Console().Tail(20))
		}
	}
}

func readFile(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
