package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"

	"github.com/loam-os/loam/test/vm"
)

// measureEncryption compares a node with an encrypted state to a plain one. Both
// start and work by turns, so that a noisy machine troubles both alike. Both have
// a TPM (swtpm), for which the firmware hashes all that it starts.
func measureEncryption(ctx context.Context, r *report, b *bench, n int) error {
	plain, err := b.node(ctx, b.raw)
	if err != nil {
		return err
	}
	defer plain.remove()

	encrypted, err := b.node(ctx, b.raw)
	if err != nil {
		return err
	}
	defer encrypted.remove()

	for _, n := range []*node{plain, encrypted} {
		n.config.TPM = filepath.Join(n.config.Dir, "tpm")
		if err := os.Mkdir(n.config.TPM, 0o700); err != nil {
			return err
		}
	}

	if err := plain.configure(ctx, machineYAML); err != nil {
		return err
	}
	if err := encrypted.configure(ctx, machineYAML+"state: {encrypt: tpm}\n"); err != nil {
		return err
	}

	var all stateSamples
	for i := range n {
		p, err := plain.stateSample(ctx)
		if err != nil {
			return err
		}
		e, err := encrypted.stateSample(ctx)
		if err != nil {
			return err
		}

		fmt.Printf("state %d: plain %+v, encrypted %+v\n", i+1, p, e)
		all.add(p, e)
	}
	return r.add(all.results(conditions("QEMU " + plain.config.Accel +
		", q35, OVMF, 2 CPUs and 2 GiB, second and later boots, swtpm"))...)
}

// stateSample is one boot of a node, and what its state takes for the same work:
// start to applied, /init alone, and the time of each of the transfers.
type stateSample struct{ applied, initramfs, write, read, sync float64 }

// stateSamples are those of both nodes, round by round.
type stateSamples struct{ plain, encrypted []stateSample }

func (s *stateSamples) add(plain, encrypted stateSample) {
	s.plain = append(s.plain, plain)
	s.encrypted = append(s.encrypted, encrypted)
}

func (s *stateSamples) results(conditions string) []Result {
	applied := func(x stateSample) float64 { return x.applied }
	write := func(x stateSample) float64 { return x.write }
	read := func(x stateSample) float64 { return x.read }
	latency := func(x stateSample) float64 { return x.sync / stateWrites * 1000 }
	rate := func(take func(stateSample) float64) func(stateSample) float64 {
		return func(x stateSample) float64 { return stateBytes / 1e6 / take(x) }
	}

	added := make([]float64, len(s.plain))
	inInit := make([]float64, len(s.plain))
	for i := range s.plain {
		added[i] = s.encrypted[i].applied - s.plain[i].applied
		inInit[i] = s.encrypted[i].initramfs - s.plain[i].initramfs
	}
	list := []Result{
		result("encrypt/boot-added", "s", 2, "unsealing, dm-crypt, more modules", conditions,
			added...),
		result("encrypt/initramfs-added", "s", 1.5, "the same, of which /init", conditions,
			inInit...),
	}

	for _, figure := range []struct {
		name, unit string
		value      func(stateSample) float64
	}{
		{"boot", "s", applied},
		{"write", "MB/s", rate(write)},
		{"read", "MB/s", rate(read)},
		{"synced-write", "ms", latency},
	} {
		list = append(list,
			free("encrypt/"+figure.name+"-plain", figure.unit, conditions, s.plain, figure.value),
			free("encrypt/"+figure.name, figure.unit, conditions, s.encrypted, figure.value))
	}
	return list
}

// free is a figure without a goal.
func free(
	name, unit, conditions string, samples []stateSample, value func(stateSample) float64,
) Result {
	var values []float64
	for _, s := range samples {
		values = append(values, value(s))
	}
	r := result(name, unit, 0, "", conditions, values...)
	r.NoGoal = true
	r.Met = true
	return r
}

// node is a machine with a disk of its own, which starts again and again.
type node struct {
	run    vm.Runner
	config vm.Config
}

// configure starts a new node for the first time, until it has applied.
func (n *node) configure(ctx context.Context, machine string) error {
	config, err := os.ReadFile("examples/hello.yaml")
	if err != nil {
		return err
	}

	n.config.Credentials = map[string]string{
		"loam.machine": machine,
		"loam.config":  string(config),
	}
	v, _, err := n.start(ctx, appliedLine)
	if err != nil {
		return err
	}
	return off(ctx, v)
}

const (
	// stateBytes is in bytes, of one read or write of the state.
	stateBytes = 128 << 20
	// stateWrites of 4 KiB each are durable before the next one begins.
	stateWrites = 500
)

func (n *node) stateSample(ctx context.Context) (s stateSample, err error) {
	v, applied, err := n.start(ctx, appliedLine)
	if err != nil {
		return s, err
	}
	defer v.Kill()

	s.applied = applied
	if err := v.Shell().Open(ctx); err != nil {
		return s, err
	}

	s.initramfs, err = initramfsTime(ctx, v)
	if err != nil {
		return s, err
	}

	const file = "/var/lib/bench"
	_, err = v.Shell().Run(ctx, fmt.Sprintf("head -c %d /dev/urandom > /run/bench", stateBytes))
	if err != nil {
		return s, err
	}
	for _, work := range []struct {
		to        *float64
		arguments string
	}{
		{&s.write, "if=/run/bench of=" + file + " bs=1M oflag=direct conv=fsync"},
		{&s.read, "if=" + file + " of=/dev/null bs=1M iflag=direct"},
		{&s.sync, fmt.Sprintf("if=/run/bench of=%s bs=4k count=%d oflag=dsync conv=notrunc", file,
			stateWrites)},
	} {
		*work.to, err = seconds(ctx, v, work.arguments)
		if err != nil {
			return s, err
		}
	}
	return s, off(ctx, v)
}

// copied is the last line of dd.
var copied = regexp.MustCompile(`copied, ([0-9.e-]+) s,`)

// seconds is how long dd takes.
func seconds(ctx context.Context, v *vm.VM, arguments string) (float64, error) {
	text, err := v.Shell().Run(ctx, "LC_ALL=C dd "+arguments+" 2>&1")
	if err != nil {
		return 0, err
	}
	m := copied.FindStringSubmatch(text)
	if m == nil {
		return 0, fmt.Errorf("dd %s: %q", arguments, text)
	}
	return strconv.ParseFloat(m[1], 64)
}

// off switches a machine off in order, so that its state is complete.
func off(ctx context.Context, v *vm.VM) error {
	if err := v.Shell().Open(ctx); err != nil {
		return errors.Join(err, v.Kill())
	}
	fmt.Fprintln(v.Shell(), "systemctl poweroff")
	return v.Wait(ctx)
}
