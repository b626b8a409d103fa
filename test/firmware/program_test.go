package firmware

import (
	"bytes"
	"debug/pe"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/loam-os/loam/firmware/uki"
)

// program is an EFI application that ends the machine by QEMU's isa-debug-exit,
// with a code that tells which program it was.
func program(code byte) []byte {
	// mov edx, port; mov al, code; out dx, al; jmp .
	return application(0xba, exitPort&0xff, exitPort>>8, 0, 0, 0xb0, code, 0xee, 0xeb, 0xfe)
}

// application returns an EFI application with this machine code.
func application(text ...byte) []byte {
	const align, headers, textAt = 512, 512, 4096
	h := pe.SectionHeader32{
		VirtualSize:      uint32(len(text)),
		VirtualAddress:   textAt,
		SizeOfRawData:    align,
		PointerToRawData: headers,
		Characteristics:  pe.IMAGE_SCN_CNT_CODE | pe.IMAGE_SCN_MEM_EXECUTE | pe.IMAGE_SCN_MEM_READ,
	}

	copy(h.Name[:], ".text")
	b := bytes.NewBuffer(append([]byte("MZ"), make([]byte, 62)...))
	b.Bytes()[60] = 64 // where the signature is
	b.WriteString("PE\x00\x00")

	for _, part := range []any{
		pe.FileHeader{
			Machine:              pe.IMAGE_FILE_MACHINE_AMD64,
			NumberOfSections:     1,
			SizeOfOptionalHeader: uint16(binary.Size(pe.OptionalHeader64{})),
			Characteristics:      pe.IMAGE_FILE_EXECUTABLE_IMAGE,
		},
		pe.OptionalHeader64{
			Magic:               0x20b,
			SizeOfCode:          align,
			AddressOfEntryPoint: textAt,
			BaseOfCode:          textAt,
			SectionAlignment:    textAt,
			FileAlignment:       align,
			SizeOfImage:         2 * textAt,
			SizeOfHeaders:       headers,
			Subsystem:           pe.IMAGE_SUBSYSTEM_EFI_APPLICATION,
			NumberOfRvaAndSizes: 16,
		},
		h,
	} {
		_ = binary.Write(b, binary.LittleEndian, part) // to memory
	}

	b.Write(make([]byte, headers-b.Len()))
	b.Write(text)
	b.Write(make([]byte, headers+align-b.Len()))

	return b.Bytes()
}

// system is a version, and a UKI whose kernel ends the machine with its code.
type system struct {
	version string
	code    byte
	uki     []byte
}

// newSystem makes the n-th of at most 127: a UKI of some clusters.
func newSystem(t testing.TB, n int) system {
	t.Helper()
	s := system{version: fmt.Sprintf("0.%d.0", n), code: byte(n)}
	random := rand.New(rand.NewPCG(uint64(n), 1))
	initrd := make([]byte, 15_000)
	for i := range initrd {
		initrd[i] = byte(random.Uint32())
	}

	osrel := fmt.Sprintf("ID=loam\nIMAGE_ID=loam-node-os\nIMAGE_VERSION=%[1]s\nVERSION_ID=%[1]s\n"+
		"PRETTY_NAME=\"Loam %[1]s\"\n", s.version)
	var err error
	s.uki, err = uki.Build(program(s.code), []uki.Section{
		{Name: ".osrel", Data: []byte(osrel)}, {Name: ".cmdline", Data: []byte("quiet")},
		{Name: ".linux", Data: program(s.code)}, {Name: ".initrd", Data: initrd},
	})
	if err != nil {
		t.Fatal(err)
	}

	return s
}
