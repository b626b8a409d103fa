package uki

import (
	"bytes"
	"debug/pe"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// testStub is a small EFI application: headers of the given size, .text and
// .sbat.
func testStub(headers uint32, dll uint16) []byte {
	im := image{
		peOffset: 0x40,
		file: pe.FileHeader{
			Machine:              pe.IMAGE_FILE_MACHINE_AMD64,
			NumberOfSections:     2,
			SizeOfOptionalHeader: 240,
			TimeDateStamp:        99,
		},
		optional: pe.OptionalHeader64{
			Magic:               0x20b,
			SectionAlignment:    4096,
			FileAlignment:       512,
			SizeOfImage:         0x3000,
			SizeOfHeaders:       headers,
			Subsystem:           pe.IMAGE_SUBSYSTEM_EFI_APPLICATION,
			NumberOfRvaAndSizes: 16,
			DllCharacteristics:  dll,
		},
		sections: []pe.SectionHeader32{
			{
				Name:             [8]uint8{'.', 't', 'e', 'x', 't'},
				VirtualSize:      5,
				VirtualAddress:   0x1000,
				SizeOfRawData:    512,
				PointerToRawData: headers,
			},
			{
				Name:             [8]uint8{'.', 's', 'b', 'a', 't'},
				VirtualSize:      4,
				VirtualAddress:   0x2000,
				SizeOfRawData:    512,
				PointerToRawData: headers + 512,
			},
		},
		data: make([]byte, headers+1024),
	}

	copy(im.data, "MZ")
	im.data[0x3c] = 0x40
	copy(im.data[0x40:], "PE\x00\x00")
	copy(im.data[headers:], "text!")
	copy(im.data[headers+512:], "sbat")

	b, err := im.bytes()
	if err != nil {
		panic(err)
	}

	return b
}

// testSections are given in another order than they are written.
func testSections() []Section {
	return []Section{
		{".initrd", bytes.Repeat([]byte("initrd"), 1000)},
		{".linux", testStub(512, 0)},
		{".cmdline", []byte("roothash=00 quiet")},
		{".osrel", []byte("ID=loam\n")},
		{".uname", []byte("6.12")},
	}
}

func TestBuildThenParse(t *testing.T) {
	for _, tc := range []struct {
		name    string
		headers uint32
	}{{"room in the headers", 1024}, {"headers must grow", 512}} {
		t.Run(tc.name, func(t *testing.T) {
			b, err := Build(testStub(tc.headers, 0), testSections())
			if err != nil {
				t.Fatal(err)
			}

			got, err := Parse(bytes.NewReader(b))
			if err != nil {
				t.Fatal(err)
			}

			in := Sections(testSections())
			want := Sections{{".sbat", []byte("sbat")}}
			for _, name := range []string{".osrel", ".cmdline", ".uname", ".linux", ".initrd"} {
				data, _ := in.Section(name)
				want = append(want, Section{name, data})
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}

			checkLayout(t, b)
		})
	}
}

// checkLayout checks what firmware relies on: alignment, ascending addresses,
// sizes, the checksum, and that the code has not moved.
func checkLayout(t *testing.T, b []byte) {
	t.Helper()
	f, err := pe.NewFile(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}

	h := f.OptionalHeader.(*pe.OptionalHeader64)
	end := h.SizeOfHeaders
	for _, s := range f.Sections {
		if s.VirtualAddress < end || s.VirtualAddress%4096 != 0 || s.Offset%512 != 0 ||
			s.Size%512 != 0 || s.Offset < h.SizeOfHeaders {
			t.Errorf("section %s misplaced: %+v", s.Name, s.SectionHeader)
		}
		end = s.VirtualAddress + s.VirtualSize
	}
	if want := (end + 4095) &^ 4095; h.SizeOfImage != want {
		t.Errorf("SizeOfImage %#x, want %#x", h.SizeOfImage, want)
	}

	text, err := f.Section(".text").Data()
	if err != nil || !bytes.HasPrefix(text, []byte("text!")) || f.TimeDateStamp != 0 {
		t.Errorf("text %q, time stamp %d, error %v", text[:5], f.TimeDateStamp, err)
	}

	zeroed := bytes.Clone(b)
	clear(zeroed[0x40+4+20+64:][:4])

	var sum uint32
	for i := 0; i < len(zeroed); i += 2 {
		sum += uint32(binary.LittleEndian.Uint16(zeroed[i:]))
		sum = sum>>16 + sum&0xffff
	}
	if want := sum + uint32(len(b)); h.CheckSum != want {
		t.Errorf("checksum %#x, want %#x", h.CheckSum, want)
	}
}

func TestBuildIsTheSameForAnyOrder(t *testing.T) {
	in := testSections()
	a, err := Build(testStub(1024, 0), in)
	if err != nil {
		t.Fatal(err)
	}

	in[0], in[3] = in[3], in[0]
	b, err := Build(testStub(1024, 0), in)
	if err != nil || !bytes.Equal(a, b) {
		t.Errorf("another order gives other bytes (error %v)", err)
	}
}

func TestNXFollowsTheKernel(t *testing.T) {
	const nx = pe.IMAGE_DLLCHARACTERISTICS_NX_COMPAT
	for _, tc := range []struct {
		name               string
		stub, kernel, want uint16
	}{{"both", nx, nx, nx}, {"stub only", nx, 0, 0}, {"kernel only", 0, nx, 0}} {
		b, err := Build(testStub(1024, tc.stub), []Section{{".linux", testStub(512, tc.kernel)}})
		if err != nil {
			t.Fatal(err)
		}

		f, err := pe.NewFile(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		if got := f.OptionalHeader.(*pe.OptionalHeader64).DllCharacteristics; got != tc.want {
			t.Errorf("%s: %#x, want %#x", tc.name, got, tc.want)
		}
	}
}

func TestBuildRefuses(t *testing.T) {
	signed := testStub(1024, 0)
	signed[0x40+4+20+112+4*8+4] = 1
	hollow := testStub(1024, 0)
	clear(hollow[0x40+4+20+240+40+20:][:4]) // PointerToRawData of .sbat

	for _, tc := range []struct {
		name     string
		stub     []byte
		sections []Section
		err      string
	}{
		{
			"unknown section",
			testStub(1024, 0),
			[]Section{{".foo", []byte("x")}},
			`section ".foo": not one of`,
		},
		{
			"section twice",
			testStub(1024, 0),
			[]Section{{".uname", []byte("x")}, {".uname", []byte("y")}},
			"given twice",
		},
		{"empty section", testStub(1024, 0), []Section{{".uname", nil}}, ".uname: empty"},
		{
			"kernel that is no PE",
			testStub(1024, 0),
			[]Section{{".linux", []byte("x")}},
			"kernel: no EFI application",
		},
		{
			"kernel of another machine",
			testStub(1024, 0),
			[]Section{{".linux", arm64Kernel()}},
			"kernel: for machine 0xaa64, the stub for 0x8664",
		},
		{
			"UKI as stub",
			mustBuild(t),
			[]Section{{".uname", []byte("x")}},
			"the stub has one already",
		},
		{"stub that is no PE", []byte("MZ"), nil, "stub: "},
		{"signed stub", signed, nil, "stub: signed"},
		{
			"stub without the content of a section",
			hollow,
			nil,
			"stub: section .sbat: not in the file",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := Build(tc.stub, tc.sections)
			if err == nil || !strings.Contains(err.Error(), tc.err) {
				t.Errorf("error %v, want %q", err, tc.err)
			}
		})
	}
}

// arm64Kernel says in its COFF header, 4 bytes after the PE header's start,
// that it is for arm64.
func arm64Kernel() []byte {
	kernel := testStub(512, 0)
	binary.LittleEndian.PutUint16(kernel[0x40+4:], pe.IMAGE_FILE_MACHINE_ARM64)
	return kernel
}

func mustBuild(t testing.TB) []byte {
	t.Helper()
	b, err := Build(testStub(1024, 0), testSections())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestParseRefuses(t *testing.T) {
	whole := mustBuild(t)
	for _, tc := range []struct {
		name string
		in   []byte
		err  string
	}{
		{"nothing", nil, "EOF"},
		{"a stub", testStub(1024, 0), "no .linux section"},
		{"half a UKI", whole[:4096], "bytes of"},
	} {
		_, err := Parse(bytes.NewReader(tc.in))
		if err == nil || !strings.Contains(err.Error(), tc.err) {
			t.Errorf("%s: error %v, want %q", tc.name, err, tc.err)
		}
	}
}

// FuzzParse: any bytes give an error or sections, never a panic or an endless
// read.
func FuzzParse(f *testing.F) {
	f.Add(mustBuild(f))
	f.Fuzz(func(t *testing.T, b []byte) {
		sections, err := Parse(bytes.NewReader(b))
		if err == nil && len(sections) == 0 {
			t.Error("no sections and no error")
		}
	})
}

// FuzzBuild: any stub gives an error or a UKI that can be parsed.
func FuzzBuild(f *testing.F) {
	f.Add(testStub(1024, 0))
	f.Add(testStub(512, 0))
	f.Fuzz(func(t *testing.T, stub []byte) {
		b, err := Build(stub, testSections())
		if err != nil {
			return
		}
		if _, err := Parse(bytes.NewReader(b)); err != nil {
			t.Error(err)
		}
	})
}
