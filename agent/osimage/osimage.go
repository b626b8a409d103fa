// Package osimage reads what the image and the boot determine about the node,
// and opens the image's own files.
package osimage

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/agent/boot"
	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/firmware/osrelease"
	"github.com/loam-os/loam/firmware/secureboot"
	"github.com/loam-os/loam/hint/fault"
)

// Observe returns the part of the status that the image and the boot determine,
// and the record of the boot. root is the root directory.
func Observe(root *os.Root) (status.Status, boot.Record, error) {
	text, err := root.ReadFile("usr/lib/os-release")
	if err != nil {
		return status.Status{}, boot.Record{},
			fault.With(fmt.Errorf("read os-release: %w", err), fault.NotANode)
	}
	release := osrelease.Parse(text)
	if release[osrelease.ImageVersion] == "" {
		return status.Status{}, boot.Record{},
			fault.With(errors.New("read os-release: no IMAGE_VERSION"), fault.NotANode)
	}

	record, err := bootRecord(root)
	if err != nil {
		return status.Status{}, boot.Record{}, err
	}

	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return status.Status{}, boot.Record{}, fmt.Errorf("uname: %w", err)
	}
	sys, err := fs.Sub(root.FS(), "sys")
	if err != nil {
		return status.Status{}, boot.Record{}, err
	}

	return status.Status{
		ImageID:      release[osrelease.ImageID],
		ImageVersion: release[osrelease.ImageVersion],
		Slot:         record.Slot,
		RootHash:     record.RootHash,
		Warnings:     record.Warnings,
		Kernel:       unix.ByteSliceToString(name.Release[:]),
		Hostname:     unix.ByteSliceToString(name.Nodename[:]),
		SecureBoot:   string(secureboot.ModeOf(sys)),
		Encryption:   string(record.Encryption),
	}, record, nil
}

// bootRecord reads the record that /init left; the zero Record if it is absent,
// as under a plain systemd.
func bootRecord(root *os.Root) (boot.Record, error) {
	var record boot.Record
	name := strings.TrimPrefix(boot.RecordPath, "/")
	if _, err := durable.ReadJSON(root.FS(), name, &record); err != nil {
		return boot.Record{}, fmt.Errorf("read the boot record: %w", err)
	}
	return record, nil
}

// Open opens the image's root directory without what is mounted over it, such
// as the layer of /etc: a clone of the one mount at root, attached nowhere
// (open_tree(2), Linux 5.2).
func Open(root string) (*os.Root, error) {
	fd, err := unix.OpenTree(unix.AT_FDCWD, root, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("open the image beneath %s: %w", root, err)
	}
	defer unix.Close(fd)

	image, err := os.OpenRoot(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		return nil, fmt.Errorf("open the image beneath %s: %w", root, err)
	}
	return image, nil
}
