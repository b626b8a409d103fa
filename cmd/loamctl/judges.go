package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/loam-os/loam/cmd/complete"
)

func judgesCommand() *cobra.Command {
	var o buildOptions
	cmd := &cobra.Command{
		Use:               "judges DIR",
		ValidArgsFunction: complete.Directories,
		Short:             "Put what the tests need into DIR",
		Long: `judges puts a script for each tool that tests use into DIR/bin, which runs it
from the tools tree, and into DIR/env what a shell needs to know:

  . DIR/env && go test ./...

tests the build that --out names, which must be there.`,
		Example: "  loamctl judges build/judges",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			b, err := o.open(cmd.Context())
			if err != nil {
				return err
			}
			defer b.steps.Close()
			return b.writeJudges(cmd.Context(), args[0])
		},
	}

	o.flags(cmd.Flags())
	return cmd
}

// judges are the real tools that tests trust more than our own code.
var judges = [...]string{
	"blkid", "bootctl", "cert-to-efi-sig-list", "cpio", "cryptsetup", "debugfs", "dump.erofs",
	"dumpe2fs", "e2fsck", "tune2fs",
	"fsck.erofs", "fsck.fat", "gpg", "hash-to-efi-sig-list", "mcopy", "mdir",
	"mke2fs", "mkfs.btrfs", "mkfs.erofs", "mkfs.exfat", "mkfs.f2fs", "mkfs.fat", "mkfs.xfs",
	"mkntfs", "mksquashfs", "mkswap", "mkudffs", "modinfo", "modprobe", "objdump", "openssl", "osslsigncode",
	"pesign", "qemu-img",
	"sbsign", "sbverify", "sfdisk", "sign-efi-sig-list", "softhsm2-util", "swtpm",
	"systemctl", "systemd-analyze", "systemd-dissect", "systemd-repart", "ukify",
	"veritysetup", "xfs_repair", "xorriso", "zstd", "/usr/lib/systemd/systemd-measure",
	"/usr/lib/systemd/systemd-sbsign", "/usr/lib/systemd/systemd-sysupdate",
}

func (b *builder) writeJudges(ctx context.Context, dir string) error {
	run := b.run()
	root, err := run.Tree(ctx)
	if err != nil {
		return err
	}

	dir, err = filepath.Abs(dir)
	if err != nil {
		return err
	}

	bin := filepath.Join(dir, "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return err
	}

	for _, name := range judges {
		inside := b.tools.Command(ctx, []string{"/tmp", run.Source, run.Out, b.cache}, name).Args
		err := os.WriteFile(filepath.Join(bin, filepath.Base(name)),
			[]byte(judgeScript(inside[:len(inside)-2], name)), 0o755)
		if err != nil {
			return err
		}
	}

	env := fmt.Sprintf("export PATH=%s:\"$PATH\"\n"+
		"export LOAM_BUILD=%s LOAM_ROOT_TREE=%s LOAM_TOOLS_TREE=%s\n",
		quote(bin), quote(run.Out), quote(root.Dir), quote(b.tools.Dir))

	return os.WriteFile(filepath.Join(dir, "env"), []byte(env), 0o644)
}

// judgeScript runs a program in the sandbox that bwrap's command line makes,
// where it also sees the directory of temporary files, in the same working
// directory.
func judgeScript(bwrap []string, name string) string {
	var words []string
	for _, word := range bwrap {
		words = append(words, quote(word))
	}
	return fmt.Sprintf(`#!/bin/sh
tmp=${TMPDIR:-/tmp} gotmp=${GOTMPDIR:-/tmp}
exec %s --bind "$tmp" "$tmp" --bind "$gotmp" "$gotmp" --setenv TMPDIR "$tmp" --chdir "$PWD" -- %s "$@"
`, strings.Join(words, " "), name)
}

// quote makes one word of text for a shell.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
