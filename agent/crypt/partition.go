package crypt

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/loam-os/loam/partitions/device"
	"github.com/loam-os/loam/partitions/ext4"
	"github.com/loam-os/loam/partitions/luks"
)

// Mark is what a partition begins with until it has a file system or a
// container.
type Mark struct {
	// Encrypt says how to encrypt the partition.
	Encrypt Mode `json:"encrypt,omitempty"`

	// Reset is the record of the reset that the new state begins with, without
	// line breaks; "" if there was no reset.
	Reset string `json:"reset,omitempty"`
}

// What follows [ext4.FormatMark], each on a line of its own.
const (
	encryptPrefix = "ENCRYPT WITH "
	resetPrefix   = "AFTER RESET "
)

// markSize is the most bytes of a mark: a disk writes a sector completely or not
// at all.
const markSize = 512

// Bytes returns the mark as it is on a partition.
func (m Mark) Bytes() []byte {
	text := ext4.FormatMark
	if m.Encrypt != None {
		text += encryptPrefix + string(m.Encrypt) + "\n"
	}
	if m.Reset != "" {
		text += resetPrefix + m.Reset + "\n"
	}
	return []byte(text)
}

// ReadMark returns the mark that a partition begins with, the zero Mark if it
// has none. What it does not know is ignored.
func ReadMark(start []byte) (m Mark) {
	rest, ok := bytes.CutPrefix(start[:min(len(start), markSize)], []byte(ext4.FormatMark))
	if !ok {
		return Mark{}
	}

	for {
		line, after, ok := bytes.Cut(rest, []byte("\n"))
		if !ok {
			return m
		}
		rest = after

		if mode, ok := bytes.CutPrefix(line, []byte(encryptPrefix)); ok && Mode(mode).Valid() {
			m.Encrypt = Mode(mode)
		}
		if record, ok := bytes.CutPrefix(line, []byte(resetPrefix)); ok {
			m.Reset = string(record)
		}
	}
}

// Write makes a partition ask to be formatted. It writes zeros behind the mark,
// where an older file system has its superblock.
func (m Mark) Write(d device.Device) error {
	text := m.Bytes()
	if len(text) > markSize {
		return fmt.Errorf("mark of %d bytes: want at most %d", len(text), markSize)
	}

	first := make([]byte, firstBlock)
	copy(first, text)
	if _, err := d.WriteAt(first, 0); err != nil {
		return fmt.Errorf("mark the state partition: %w", err)
	}
	if err := d.Sync(); err != nil {
		return fmt.Errorf("mark the state partition: %w", err)
	}
	return nil
}

// firstBlock is the block with the mark, or with the start of the header.
const firstBlock = 4096

// trace is in a container that Format makes, behind its key slots. It remains if
// something overwrites the header, so that the data does not pass for garbage.
const trace = "LOAM ENCRYPTED STATE\n"

// traceOffset is where the trace is. cryptsetup adds key slots at the lowest
// place that is free, and there is room for more than it allows.
const traceOffset = luks.DataOffset - luks.SectorSize

// Find reports whether a partition has a container, and why it cannot be opened.
// Damage to one copy of the header is no such reason.
func Find(r io.ReaderAt) (found bool, err error) {
	_, err = luks.Read(r)
	if err == nil {
		return true, nil
	}
	if is, probeErr := luks.Probe(r); is && probeErr == nil {
		return true, err
	}

	start := make([]byte, len(trace))
	_, readErr := r.ReadAt(start, traceOffset)
	if readErr == nil && string(start) == trace {
		return true, err
	}
	return false, nil
}

// Drop makes what a container holds unreadable for good: no key slot and no
// header is left, so not even the recovery key opens it. The partition asks for
// a new container that the same kind of key opens, and whose state begins with
// the record of the reset. A container that is open stays open. After a power
// cut, the new container overwrites what is left.
func Drop(d device.Device, reset string) error {
	mark, size, err := successor(d)
	if err != nil {
		return fmt.Errorf("drop the key of the state: %w", err)
	}

	mark.Reset = reset
	if err := mark.Write(d); err != nil {
		return fmt.Errorf("drop the key of the state: %w", err)
	}
	if err := wipe(d, size); err != nil {
		return fmt.Errorf("drop the key of the state: %w", err)
	}
	return nil
}

// successor returns the mark for a container like the present one, and the size
// of the header and its key slots.
func successor(d device.Device) (Mark, int64, error) {
	h, err := luks.Read(d)
	if err == nil {
		mode := Key
		if len(tokens(h, tokenTPM)) > 0 {
			mode = TPM
		}
		return Mark{Encrypt: mode}, h.DataOffset(), nil
	}

	// An earlier call has come this far.
	start := make([]byte, markSize)
	_, readErr := d.ReadAt(start, 0)
	mark := ReadMark(start)
	if readErr == nil && mark.Encrypt != None {
		return mark, luks.DataOffset, nil
	}
	return Mark{}, 0, errors.Join(err, readErr)
}

// wipe overwrites all of a header but its first block with zeros.
func wipe(d device.Device, size int64) error {
	const step = 1 << 20
	zeros := make([]byte, step)
	for at := int64(firstBlock); at < size; at += step {
		if _, err := d.WriteAt(zeros[:min(step, size-at)], at); err != nil {
			return err
		}
	}
	return d.Sync()
}
