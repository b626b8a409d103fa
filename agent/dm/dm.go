// Package dm maps block devices with the kernel's device mapper, by the ioctls
// of /dev/mapper/control (Linux, include/uapi/linux/dm-ioctl.h).
package dm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"unsafe"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"
)

// ControlPath is the device node that devtmpfs makes for the device mapper.
const ControlPath = "/dev/mapper/control"

// SectorSize is the unit of Target.Start and Target.Length, whatever the sector
// size of the disk.
const SectorSize = 512

// Target is a line of a mapping table. Start and Length are in 512-byte
// sectors.
type Target struct {
	Start, Length uint64
	Type          string
	Params        string
}

// Control issues device mapper commands.
type Control struct{ file *os.File }

// Open opens the device mapper's control device.
func Open() (*Control, error) {
	f, err := os.OpenFile(ControlPath, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("open device mapper: %w", err)
	}
	return &Control{f}, nil
}

// Close closes the control device; mappings stay.
func (c *Control) Close() error { return c.file.Close() }

// Mapping is a block device that the device mapper makes.
type Mapping struct {
	// Name is at most 127 bytes, UUID at most 128.
	Name, UUID string

	// Writable is for a mapping that is not read-only.
	Writable bool
	Targets  []Target
}

// Crypt returns the mapping of a LUKS2 container whose data has size bytes. table
// are the parameters of the target. The UUID has the form that cryptsetup gives,
// so that cryptsetup can show the mapping.
func Crypt(name string, container uuid.UUID, table string, size int64) Mapping {
	return Mapping{
		Name: name,
		UUID: fmt.Sprintf("CRYPT-LUKS2-%s-%s",
			strings.ReplaceAll(container.String(), "-", ""), name),
		Writable: true,
		Targets:  []Target{{Length: uint64(size) / SectorSize, Type: "crypt", Params: table}},
	}
}

// Map makes a mapping and returns its device number. If it cannot be made
// completely, nothing is left of it.
func (c *Control) Map(m Mapping) (dev uint64, err error) {
	// The parameters may have a key: the kernel wipes its copy.
	flags := uint32(unix.DM_SECURE_DATA_FLAG)
	if !m.Writable {
		flags |= unix.DM_READONLY_FLAG
	}

	head, _, err := c.call(unix.DM_DEV_CREATE, m.Name, m.UUID, flags, nil)
	if err != nil {
		return 0, err
	}

	_, _, err = c.call(unix.DM_TABLE_LOAD, m.Name, "", flags, m.Targets)
	if err == nil {
		_, _, err = c.call(unix.DM_DEV_SUSPEND, m.Name, "", 0, nil)
	}
	if err != nil {
		return 0, errors.Join(err, c.Remove(m.Name))
	}
	return head.Dev, nil
}

// Remove removes the mapping.
func (c *Control) Remove(name string) error {
	_, _, err := c.call(unix.DM_DEV_REMOVE, name, "", 0, nil)
	return err
}

// call issues one command: the header of 312 bytes, then the targets, each
// target with its parameters aligned to 8 bytes.
func (c *Control) call(
	cmd uintptr, name, uuid string, flags uint32, targets []Target,
) (unix.DmIoctl, []byte, error) {
	buf, err := encode(name, uuid, flags, targets)
	if err != nil {
		return unix.DmIoctl{}, nil, err
	}

	_, _, errno := unix.Syscall(unix.SYS_IOCTL, c.file.Fd(), cmd, uintptr(unsafe.Pointer(&buf[0])))
	head := *(*unix.DmIoctl)(unsafe.Pointer(&buf[0]))
	if errno != 0 {
		return head, nil, fmt.Errorf("device mapper %s %s: %w", commandName(cmd), name, errno)
	}

	return head, buf, nil
}

const headerSize = int(unsafe.Sizeof(unix.DmIoctl{}))

func encode(name, uuid string, flags uint32, targets []Target) ([]byte, error) {
	head := unix.DmIoctl{
		Version:      [3]uint32{unix.DM_VERSION_MAJOR, 0, 0},
		Data_start:   uint32(headerSize),
		Target_count: uint32(len(targets)),
		Flags:        flags,
	}
	if name == "" || len(name) >= len(head.Name) || len(uuid) >= len(head.Uuid) {
		return nil, fmt.Errorf("device mapper name %q or uuid %q: empty or too long", name, uuid)
	}

	copy(head.Name[:], name)
	copy(head.Uuid[:], uuid)

	var body []byte
	for _, t := range targets {
		body = append(body, encodeTarget(t)...)
	}

	// The kernel answers in the same buffer and needs room.
	head.Data_size = uint32(headerSize + max(len(body), 4096))
	buf := make([]byte, head.Data_size)
	*(*unix.DmIoctl)(unsafe.Pointer(&buf[0])) = head
	copy(buf[headerSize:], body)

	return buf, nil
}

func encodeTarget(t Target) []byte {
	const spec = 40 // struct dm_target_spec
	size := (spec + len(t.Params) + 1 + 7) &^ 7
	b := make([]byte, size)
	binary.NativeEndian.PutUint64(b[0:], t.Start)
	binary.NativeEndian.PutUint64(b[8:], t.Length)
	binary.NativeEndian.PutUint32(b[20:], uint32(size))
	copy(b[24:40], t.Type)
	copy(b[spec:], t.Params)

	return b
}

func commandName(cmd uintptr) string {
	switch cmd {
	case unix.DM_DEV_CREATE:
		return "create"
	case unix.DM_TABLE_LOAD:
		return "load"
	case unix.DM_DEV_SUSPEND:
		return "resume"
	}
	return "remove"
}
