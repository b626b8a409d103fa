package firmware

import (
	"bytes"
	"debug/pe"
	"encoding/binary"

	"github.com/loam-os/loam/firmware/uki"
)

// SystemdBoot returns a program that says it is systemd-boot of that version.
func SystemdBoot(version string) []byte {
	text := "#### LoaderInfo: systemd-boot " + version + " ####"
	return PE(uki.Section{Name: ".sdmagic", Data: []byte(text)})
}

// PE returns a PE file of sections, as small as uki reads.
func PE(sections ...uki.Section) []byte {
	const headers, align = 512, 512
	var b bytes.Buffer
	b.Write(append([]byte("MZ"), make([]byte, 58)...))
	_ = binary.Write(&b, binary.LittleEndian, uint32(64))
	b.WriteString("PE\x00\x00")
	_ = binary.Write(&b, binary.LittleEndian, pe.FileHeader{
		Machine:              pe.IMAGE_FILE_MACHINE_AMD64,
		NumberOfSections:     uint16(len(sections)),
		SizeOfOptionalHeader: 240,
	})
	_ = binary.Write(&b, binary.LittleEndian, pe.OptionalHeader64{
		Magic:               0x20b,
		NumberOfRvaAndSizes: 16,
		SizeOfHeaders:       headers,
	})
	var body bytes.Buffer
	for _, s := range sections {
		h := pe.SectionHeader32{
			VirtualSize:      uint32(len(s.Data)),
			SizeOfRawData:    uint32((len(s.Data) + align - 1) / align * align),
			PointerToRawData: uint32(headers + body.Len()),
		}
		copy(h.Name[:], s.Name)
		_ = binary.Write(&b, binary.LittleEndian, h)
		body.Write(s.Data)
		body.Write(make([]byte, int(h.SizeOfRawData)-len(s.Data)))
	}

	return append(append(b.Bytes(), make([]byte, headers-b.Len())...), body.Bytes()...)
}
