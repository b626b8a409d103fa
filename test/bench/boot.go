package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/loam-os/loam/agent/boot"
	"github.com/loam-os/loam/image"
	"github.com/loam-os/loam/image/build"
	"github.com/loam-os/loam/image/lock"
	"github.com/loam-os/loam/image/manifest"
	"github.com/loam-os/loam/image/rootfs"
	"github.com/loam-os/loam/image/step"
	"github.com/loam-os/loam/image/tools"
	"github.com/loam-os/loam/test/bench/stock"
	"github.com/loam-os/loam/test/vm"
)

// bench is the finished build and what runs it.
type bench struct {
	manifest manifest.Manifest
	raw      string
	tools    tools.Tree
	cache    string
	// stock is the same root tree on a disk that boots the stock way.
	stock string
}

// open finds the build that measureBuild left, and makes the stock disk.
func open(ctx context.Context) (*bench, error) {
	b, err := openNode(ctx)
	if err != nil {
		return nil, err
	}
	return b, b.makeStock(ctx)
}

// openNode finds the build that measureBuild left.
func openNode(ctx context.Context) (*bench, error) {
	m, err := built(out)
	if err != nil {
		return nil, err
	}

	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}

	cache = filepath.Join(cache, "loam")
	env, err := tools.InSource(".")
	if err != nil {
		return nil, err
	}

	env.Cache = cache
	env.Log = os.Stderr
	tree, err := tools.Ensure(ctx, env)
	if err != nil {
		return nil, err
	}

	b := &bench{manifest: m, tools: tree, cache: cache}
	b.raw, err = filepath.Abs(filepath.Join(out, m.Files[0].Name))
	return b, err
}

// built is what a build in a directory says of itself.
func built(dir string) (manifest.Manifest, error) {
	text, err := os.ReadFile(filepath.Join(dir, image.ManifestName))
	if err != nil {
		return manifest.Manifest{}, err
	}
	return manifest.Decode(text)
}

// megabytes is the size of a file of a build, in 10^6 bytes.
func megabytes(m manifest.Manifest, suffix string) float64 {
	f, _ := m.Output(suffix)
	return float64(f.Size) / 1e6
}

func (b *bench) makeStock(ctx context.Context) error {
	steps, err := step.New(os.Stdout, filepath.Join(dir, "stock.log"))
	if err != nil {
		return err
	}
	defer steps.Close()

	text, err := os.ReadFile("os-release")
	if err != nil {
		return err
	}

	release, err := image.ParseRelease(text)
	if err != nil {
		return err
	}

	plan, err := image.Decide(image.Spec{
		Arch:       b.manifest.Arch,
		Profile:    b.manifest.Profile,
		SectorSize: b.manifest.SectorSize,
		Release:    release,
	})
	if err != nil {
		return err
	}

	locks, err := lock.Read("mkosi/packages.lock")
	if err != nil {
		return err
	}

	run := build.Build{
		Plan:     plan,
		Tools:    b.tools,
		Cache:    b.cache,
		Packages: locks,
		Source:   ".",
		Out:      out,
		Steps:    steps,
	}

	root, err := run.Tree(ctx)
	if err != nil {
		return err
	}

	osRelease, err := filepath.Abs("os-release")
	if err != nil {
		return err
	}

	config, err := filepath.Abs("test/bench/stock/mkosi")
	if err != nil {
		return err
	}

	return steps.Do("stock disk (mkosi's initrd)", "", func(w io.Writer) error {
		b.stock, err = stock.Disk(ctx, b.tools, root, rootfs.Params{
			Cache:           b.cache,
			Config:          config,
			Arch:            b.manifest.Arch,
			Profile:         b.manifest.Profile,
			SourceDateEpoch: build.Epoch,
			Log:             w,
		}, osRelease)
		return err
	})
}

func measureSizes(ctx context.Context, r *report, b *bench) error {
	loam := filepath.Join(dir, "loam")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false",
		"-ldflags=-s -w -buildid=", "-o", loam, "./cmd/loam")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOAMD64=v1")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, text)
	}

	binary, err := os.Stat(loam)
	if err != nil {
		return err
	}

	return r.add(
		result("size/root", "MB", 150, "", "erofs, cloud profile, MB of 10^6 bytes",
			megabytes(b.manifest, ".root")),
		result("size/raw.zst", "MB", 160, "", "cloud profile, MB of 10^6 bytes",
			megabytes(b.manifest, ".raw.zst")),
		result("size/loam", "MB", 45, "", "stripped, amd64", float64(binary.Size())/1e6),
	)
}

// sample is one boot of ours.
type sample struct{ applied, initramfs, rss float64 }

// measureBoots boots ours and the stock one by turns, so that a noisy machine
// troubles both alike.
func measureBoots(ctx context.Context, r *report, b *bench, n int) error {
	config, err := os.ReadFile("examples/hello.yaml")
	if err != nil {
		return err
	}

	var applied, initramfs, rss, stockTimes, ratios []float64
	accel := ""
	for i := range n {
		s, used, err := b.boot(ctx, string(config))
		if err != nil {
			return err
		}

		st, err := b.bootStock(ctx)
		if err != nil {
			return err
		}

		accel = used
		fmt.Printf("boot %d: applied %.1f s (initramfs %.2f s, agent %.1f MB), "+
			"stock multi-user.target %.1f s\n", i+1, s.applied, s.initramfs, s.rss, st)
		applied = append(applied, s.applied)
		initramfs = append(initramfs, s.initramfs)
		rss = append(rss, s.rss)
		stockTimes = append(stockTimes, st)
		ratios = append(ratios, s.applied/st)
	}

	machine := conditions("QEMU " + accel + ", q35, OVMF, 2 CPUs and 2 GiB, " +
		"first boot of an 8 GiB disk, examples/hello.yaml")
	return r.add(
		result("boot/applied", "s", 30,
			"emulation: every instruction of systemd, udev and the agent", machine, applied...),
		result("boot/initramfs", "s", 1.5, "first boot: modules, verity, format and grow ext4",
			machine, initramfs...),
		result("boot/stock", "s", 1e9, "",
			machine+"; the same root tree with mkosi's systemd initrd, "+
				"to multi-user.target", stockTimes...),
		result("boot/applied-to-stock", "ratio", 0.75, "", machine, ratios...),
		result("agent/rss", "MB", 30, "", machine+", 30 s after applied", rss...),
	)
}

const machineYAML = `apiVersion: loam.dev/v1alpha1
kind: Machine
hostname: hello
source: {credential: {name: loam.config}}
debugShell: [ttyS1]
`

var (
	appliedLine = regexp.MustCompile(`loam: applied generation`)
	stockLine   = regexp.MustCompile(regexp.QuoteMeta(stock.Reached))
)

// node makes a machine with a disk image.
func (b *bench) node(ctx context.Context, raw string) (*node, error) {
	tmp, err := os.MkdirTemp("", "loam")
	if err != nil {
		return nil, err
	}

	run := func(ctx context.Context, name string, args ...string) *exec.Cmd {
		return b.tools.Command(ctx, []string{tmp, filepath.Dir(raw)}, name, args...)
	}

	config, err := vm.Prepare(ctx, b.tools.Dir, run,
		vm.Image{Arch: b.manifest.Arch, Base: raw, DiskSize: "8G"}, tmp)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(tmp))
	}
	return &node{run: run, config: config}, nil
}

// start switches the machine on and waits for the line. It returns when that came,
// in seconds.
func (n *node) start(ctx context.Context, until *regexp.Regexp) (*vm.VM, float64, error) {
	v, err := vm.Start(ctx, n.run, n.config)
	if err != nil {
		return nil, 0, err
	}

	wait, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()

	line, _, _, err := v.Console().Expect(wait, 0, until)
	if err != nil {
		return nil, 0, errors.Join(err, v.Kill())
	}
	return v, line.At.Seconds(), nil
}

func (n *node) remove() error { return os.RemoveAll(n.config.Dir) }

// power switches on a machine with the disk image and waits for the line.
func (b *bench) power(
	ctx context.Context, raw string, credentials map[string]string, until *regexp.Regexp,
) (*vm.VM, vm.Config, float64, error) {
	n, err := b.node(ctx, raw)
	if err != nil {
		return nil, vm.Config{}, 0, err
	}

	n.config.Credentials = credentials
	v, at, err := n.start(ctx, until)
	return v, n.config, at, err
}

func (b *bench) boot(ctx context.Context, osc string) (s sample, accel string, err error) {
	v, config, at, err := b.power(ctx, b.raw,
		map[string]string{"loam.machine": machineYAML, "loam.config": osc}, appliedLine)
	if err != nil {
		return s, "", err
	}
	defer os.RemoveAll(config.Dir)
	defer v.Kill()

	s.applied = at

	if err := v.Shell().Open(ctx); err != nil {
		return s, "", err
	}

	s.initramfs, err = initramfsTime(ctx, v)
	if err != nil {
		return s, "", err
	}

	text, err := v.Shell().Run(ctx,
		"sleep 30; ps -o rss= -p $(systemctl show -P MainPID loam-agent.service)")
	if err != nil {
		return s, "", err
	}

	kib, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	s.rss = kib * 1024 / 1e6
	return s, config.Accel, err
}

// initramfsTime is how long /init took, in seconds.
func initramfsTime(ctx context.Context, v *vm.VM) (float64, error) {
	text, err := v.Shell().Run(ctx, "cat "+boot.RecordPath)
	if err != nil {
		return 0, err
	}

	var record boot.Record
	if err := json.Unmarshal([]byte(text), &record); err != nil {
		return 0, fmt.Errorf("boot record: %w", err)
	}

	var sum float64
	for _, step := range record.Steps {
		sum += step.Took.Seconds()
	}
	return sum, nil
}

func (b *bench) bootStock(ctx context.Context) (float64, error) {
	v, config, at, err := b.power(ctx, b.stock, nil, stockLine)
	if err != nil {
		return 0, err
	}
	return at, errors.Join(v.Kill(), os.RemoveAll(config.Dir))
}
