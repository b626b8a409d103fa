package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/loam-os/loam/image/bundle"
	"github.com/loam-os/loam/image/update"
)

// nextOut is a later version of the build that is measured.
const nextOut = dir + "/image-next"

// measureUpgrade compares what a node must fetch for the next release with the
// size of that release.
func measureUpgrade(ctx context.Context, r *report) error {
	if _, err := runBuild(ctx, nil); err != nil {
		return err
	}

	overlay, err := changedSource(0)
	if err != nil {
		return err
	}

	release, err := laterRelease()
	if err != nil {
		return err
	}

	if _, err := runBuild(ctx, nil, "--go-flag=-overlay="+overlay, "--os-release", release, "--out",
		nextOut); err != nil {
		return err
	}

	have, err := bundled(out)
	if err != nil {
		return err
	}

	next, err := bundled(nextOut)
	if err != nil {
		return err
	}

	text, err := next.Encode()
	if err != nil {
		return err
	}

	percent := func(n int64) float64 { return 100 * float64(n) / float64(next.Pack.Size) }
	c := conditions("amd64 cloud, one line of agent/status and the version changed; " +
		"of the entire pack")
	err = r.add(
		result("upgrade/download/agent-only", "%", 10, "loam, of which every block differs",
			c, percent(missing(have, next))),
		result("upgrade/download/again", "%", 1, "the index", c,
			percent(int64(len(text))+missing(next, next))),
	)
	if err != nil {
		return err
	}

	return fillSlot.measure(ctx, r)
}

// fillSlot writes 256 MiB. A ninth more time than dd(1) takes is 0.9 of its
// speed.
var fillSlot = benchmark{
	name:   "FillSlot",
	in:     "./agent/upgrade/disk",
	prefix: "upgrade/",
	rounds: 9,
	n:      9,
	figures: []figure{
		{"write-slot", "known", "times-dd", 1 / 0.9},
		{"write-slot/unknown", "unknown", "times-dd", 1 / 0.9},
		{"memory", "unknown", "peak-MiB", 64},
	},
	conditions: "every chunk of 256 MiB differs, pack in a file, stored; both on one disk, " +
		"in turns; by O_DIRECT; what is there is known, or read and hashed; what is written " +
		"is verified and made durable every 2 MiB",
}

// flashDisk writes 256 MiB, as fillSlot does.
var flashDisk = benchmark{
	name:   "Flash",
	in:     "./agent/flash",
	prefix: "flash/",
	rounds: 9,
	n:      9,
	figures: []figure{
		{"write", "noise", "times-dd", 1 / 0.9},
	},
	conditions: "256 MiB from a file, by O_DIRECT, both on one disk, in turns; " +
		"reading back is not in it",
}

// laterRelease writes an os-release file of a later version.
func laterRelease() (string, error) {
	text, err := os.ReadFile("os-release")
	if err != nil {
		return "", err
	}

	var lines []string
	for line := range strings.Lines(string(text)) {
		if key, value, _ := strings.Cut(strings.TrimSpace(line), "="); key == "IMAGE_VERSION" {
			line = key + "=" + value + ".1\n"
		}
		lines = append(lines, line)
	}

	name := filepath.Join(dir, "os-release")
	return name, os.WriteFile(name, []byte(strings.Join(lines, "")), 0o644)
}

// bundled is the index of a build's bundle.
func bundled(dir string) (bundle.Index, error) {
	m, err := built(dir)
	if err != nil {
		return bundle.Index{}, err
	}

	b := update.Bundle{Pack: filepath.Join(os.TempDir(), "loam-bench.pack")}
	defer os.Remove(b.Pack)
	for suffix, to := range map[string]*string{
		".root":   &b.Root,
		".verity": &b.Verity,
		".efi":    &b.UKI,
	} {
		f, _ := m.Output(suffix)
		*to = filepath.Join(dir, f.Name)
	}

	err = b.Write(bundle.Sources{
		ImageID:  m.ImageID,
		Version:  m.Version,
		Arch:     m.Arch,
		Profile:  m.Profile,
		RootHash: m.RootHash,
	})

	return b.Index, err
}

// missing is how many bytes of the pack a node fetches that has another
// release.
func missing(have, want bundle.Index) (n int64) {
	known := map[bundle.Digest]bool{}
	for _, p := range []bundle.Part{have.Root, have.Verity, have.UKI} {
		for _, c := range p.Chunks {
			known[c.SHA256] = true
		}
	}

	for _, p := range []bundle.Part{want.Root, want.Verity, want.UKI} {
		for _, c := range p.Chunks {
			if !known[c.SHA256] {
				n += c.Len
				known[c.SHA256] = true
			}
		}
	}

	return n
}
