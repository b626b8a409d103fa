package build

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/google/uuid"

	"github.com/loam-os/loam/firmware/loader"
	"github.com/loam-os/loam/firmware/uki"
	"github.com/loam-os/loam/image"
	"github.com/loam-os/loam/image/initramfs"
	"github.com/loam-os/loam/image/manifest"
	"github.com/loam-os/loam/image/sbom"
	"github.com/loam-os/loam/image/tools"
	"github.com/loam-os/loam/partitions/ext4"
)

// bootFiles are what starts the system.
type bootFiles struct {
	kernel string // its release

	// loader is systemd-boot, uki the program that it starts.
	loader, uki []byte

	// stub, software, linux and microcode, nil if absent, are in every UKI;
	// template is the empty state file system.
	stub, software, linux, microcode, template []byte
}

// writeBoot makes what starts the system from a disk.
func (im images) writeBoot(ctx context.Context) (boot bootFiles, err error) {
	err = im.steps.Do("initramfs, UKI", "", func(w io.Writer) error {
		boot, err = im.readBoot(ctx, w)
		if err != nil {
			return err
		}

		kernel, archive, err := packInitramfs(im.tree.Dir, im.programs.init, boot.template, nil)
		if err != nil {
			return err
		}

		boot.kernel = kernel
		boot.uki, err = makeUKI(im.plan, im.plan.Cmdline, boot, archive)
		if err != nil {
			return err
		}

		return os.WriteFile(im.file(".efi"), boot.uki, 0o644)
	})

	return boot, err
}

// readBoot reads or makes the parts that UKIs consist of.
func (im images) readBoot(ctx context.Context, w io.Writer) (boot bootFiles, err error) {
	boot.template, err = stateTemplate(ctx, im.tool, im.dir, w)
	if err != nil {
		return boot, err
	}

	boot.stub, err = os.ReadFile(filepath.Join(im.tools.Dir, loader.Stub(im.plan.Spec.Arch)))
	if err != nil {
		return boot, err
	}

	boot.loader, err = os.ReadFile(loaderFile(im.tools, im.plan.Spec.Arch))
	if err != nil {
		return boot, err
	}

	boot.linux, err = os.ReadFile(im.tree.Kernel)
	if err != nil {
		return boot, err
	}

	boot.microcode, err = packMicrocode(im.tree.Dir)
	if err != nil {
		return boot, err
	}

	boot.software, err = im.writeSoftware()
	return boot, err
}

// writeSoftware writes which software is in the image, and returns it.
func (im images) writeSoftware() ([]byte, error) {
	packages, err := im.tree.ReadPackages()
	if err != nil {
		return nil, err
	}

	s := im.plan.Spec
	loader, err := loaderPackage(im.tools, s.Arch)
	if err != nil {
		return nil, err
	}

	others, err := im.tree.GoPrograms()
	if err != nil {
		return nil, err
	}

	text, err := sbom.Encode(sbom.About{
		ImageID:   s.Release.ImageID,
		Version:   s.Release.Version,
		Arch:      s.Arch,
		Profile:   s.Profile,
		Namespace: uuid.NewSHA1(identity(s, "SBOM"), im.plan.RootHash[:]).URN(),
		Created:   time.Unix(Epoch, 0),
		Packages:  append(packages, loader),
		Programs:  append(im.programs.all(), others...),
	})
	if err != nil {
		return nil, err
	}

	return text, os.WriteFile(im.file(image.SBOMSuffix), text, 0o644)
}

// loaderFile returns the file of systemd-boot in a tools tree.
func loaderFile(tree tools.Tree, arch string) string {
	return filepath.Join(tree.Dir, loader.Installed(arch))
}

// loaderPackage is the package of systemd-boot and of the stub of UKIs, which
// come from the tools tree.
func loaderPackage(tree tools.Tree, arch string) (manifest.Package, error) {
	return tree.Package("systemd-boot-efi", arch)
}

// runner makes the command that runs a program of the tools tree.
type runner func(ctx context.Context, name string, args ...string) *exec.Cmd

// stateTemplate makes mke2fs write the empty state file system that the node
// writes on first boot and then grows. UUID and hash seed are the node's to
// set.
func stateTemplate(ctx context.Context, run runner, dir string, detail io.Writer) ([]byte, error) {
	const size = 256 << 20
	file := filepath.Join(dir, "state.ext4")
	defer os.Remove(file)

	const fixed = "6c6f616d-0000-4000-8000-000000000001"
	cmd := run(ctx, "env", "SOURCE_DATE_EPOCH=1", "E2FSPROGS_FAKE_TIME=1", "mke2fs", "-q", "-t",
		"ext4", "-b", "4096", "-L", "loam-state", "-U", fixed,
		// A journal for disks that grow to terabytes; quota for what kubelet
		// and containers keep.
		"-J", "size=64", "-O", "metadata_csum,metadata_csum_seed,64bit,quota,project", "-E",
		"hash_seed="+fixed+",root_owner=0:0", file, fmt.Sprintf("%dK", size>>10))

	cmd.Stdout = detail
	cmd.Stderr = detail

	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("make state file system: %w", err)
	}

	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()

	t, err := ext4.FromImage(f, size)
	if err != nil {
		return nil, err
	}

	return t.Encode(), nil
}

// packInitramfs puts /init, the modules for disks and more, with their
// firmware, and the state template into a compressed cpio archive. It returns
// the kernel release too. No module for disks asks for firmware.
func packInitramfs(
	tree, loam string, template []byte, more []string,
) (kernel string, archive []byte, err error) {
	kernel, index, err := readModules(tree)
	if err != nil {
		return "", nil, err
	}

	files, texts, err := selectModules(index, more)
	if err != nil {
		return "", nil, err
	}

	binary, err := os.ReadFile(loam)
	if err != nil {
		return "", nil, err
	}

	entries := []initramfs.Entry{
		{Path: "init", Mode: 0o755, Data: binary},
		{Path: "state.ext4", Mode: 0o444, Data: template},
		{
			Path:  "dev/console",
			Mode:  os.ModeDevice | os.ModeCharDevice | 0o600,
			Major: 5,
			Minor: 1,
		},
	}

	for _, dir := range []string{"dev", "proc", "run", "sys", "sysroot"} {
		entries = append(entries, initramfs.Entry{Path: dir, Mode: os.ModeDir | 0o755})
	}

	texts = plainNames(texts)
	for name, text := range map[string][]byte{
		"modules.dep": texts.Dep, "modules.alias": texts.Alias, "modules.softdep": texts.Softdep,
		"modules.builtin": texts.Builtin,
	} {
		entries = append(entries,
			initramfs.Entry{Path: "lib/modules/" + name, Mode: 0o444, Data: text})
	}

	for _, file := range files {
		data, err := module(filepath.Join(tree, "usr/lib/modules", kernel, file))
		if err != nil {
			return "", nil, err
		}
		entries = append(entries,
			initramfs.Entry{Path: "lib/modules/" + plainName(file), Mode: 0o444, Data: data})
	}

	if len(more) > 0 {
		firmware, err := firmwareFiles(tree)
		if err != nil {
			return "", nil, err
		}
		entries = append(entries, firmware...)
	}

	archive, err = pack(entries)
	return kernel, archive, err
}

// makeUKI joins kernel, initramfs and command line into what the loader starts.
func makeUKI(p image.Plan, cmdline string, in bootFiles, archive []byte) ([]byte, error) {
	sections := []uki.Section{
		{Name: ".osrel", Data: p.Spec.Release.Text},
		{Name: ".cmdline", Data: []byte(cmdline)},
		{Name: ".uname", Data: []byte(in.kernel)},
		{Name: uki.SBOM, Data: in.software},
		{Name: ".linux", Data: in.linux},
		{Name: ".initrd", Data: archive},
	}
	if in.microcode != nil {
		sections = append(sections, uki.Section{Name: ".ucode", Data: in.microcode})
	}

	stub, err := uki.AddSBAT(in.stub, generation(p.Spec.Release))
	if err != nil {
		return nil, err
	}
	return uki.Build(stub, sections)
}

// generation is the line of a release in the .sbat of its UKI. Generations begin
// with 1.
func generation(r image.Release) uki.SBAT {
	return uki.SBAT{
		Component:  "loam",
		Generation: r.Epoch + 1,
		Vendor:     "Loam",
		Package:    r.ImageID,
		Version:    r.Version,
		URL:        "https://github.com/loam-os/loam",
	}
}

func pack(entries []initramfs.Entry) ([]byte, error) {
	var b bytes.Buffer
	if err := initramfs.Write(&b, entries); err != nil {
		return nil, err
	}
	return initramfs.Compress(b.Bytes())
}
