package dm

import (
	"encoding/binary"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

func TestEncodePlacesHeaderAndTargetsAsTheKernelReadsThem(t *testing.T) {
	buf, err := encode("root", "CRYPT-VERITY-x-root", unix.DM_READONLY_FLAG, []Target{
		{
			Start:  0,
			Length: 2048,
			Type:   "verity",
			Params: "1 /dev/a /dev/b",
		},
		{Start: 2048, Length: 8, Type: "zero"},
	})
	if err != nil {
		t.Fatal(err)
	}

	if headerSize != 312 {
		t.Errorf("header is %d bytes, the kernel's is 312", headerSize)
	}

	head := *(*unix.DmIoctl)(unsafe.Pointer(&buf[0]))
	if int(head.Data_size) != len(buf) || head.Target_count != 2 ||
		int(head.Data_start) != headerSize {
		t.Errorf("header %+v for a buffer of %d bytes", head, len(buf))
	}

	first := buf[headerSize:]
	next := binary.NativeEndian.Uint32(first[20:])
	if next%8 != 0 || next < 40+uint32(len("1 /dev/a /dev/b"))+1 {
		t.Errorf("next target at %d: not aligned to 8 or over the parameters", next)
	}

	if got := unix.ByteSliceToString(first[40:]); got != "1 /dev/a /dev/b" {
		t.Errorf("parameters %q", got)
	}

	second := first[next:]
	if binary.NativeEndian.Uint64(second) != 2048 ||
		unix.ByteSliceToString(second[24:40]) != "zero" {
		t.Errorf("second target starts with % x", second[:40])
	}
}

func TestEncodeRefusesNamesTheKernelWouldCut(t *testing.T) {
	for _, name := range []string{"", strings.Repeat("n", 128)} {
		if _, err := encode(name, "", 0, nil); err == nil {
			t.Errorf("name of %d bytes accepted", len(name))
		}
	}
}
