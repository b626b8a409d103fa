package uki

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

func TestReplaceTheLastSection(t *testing.T) {
	for _, headers := range []uint32{1024, 512} {
		plain, err := Build(testStub(headers, 0), testSections())
		if err != nil {
			t.Fatal(err)
		}

		want, err := Build(testStub(headers, 0),
			append(testSections(), Section{LoaderSignature, []byte("short")}))
		if err != nil {
			t.Fatal(err)
		}

		long, err := Replace(plain, Section{LoaderSignature, bytes.Repeat([]byte("long"), 1000)})
		if err != nil {
			t.Fatal(err)
		}

		checkLayout(t, long)
		for name, from := range map[string][]byte{
			"without one":       plain,
			"with a longer one": long,
			"with the same":     want,
		} {
			got, err := Replace(from, Section{LoaderSignature, []byte("short")})
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("headers of %d bytes, a UKI %s: not as Build makes it: %v",
					headers, name, err)
			}
		}
	}
}

func TestReplaceAnySection(t *testing.T) {
	for _, headers := range []uint32{1024, 512} {
		plain, err := Build(testStub(headers, 0), testSections())
		if err != nil {
			t.Fatal(err)
		}

		for i, s := range testSections() {
			long := Section{s.Name, append(bytes.Repeat([]byte("long"), 1000), s.Data...)}
			if s.Name == ".linux" {
				long.Data = append(slices.Clone(s.Data), long.Data[:4000]...)
			}
			sections := testSections()
			sections[i] = long
			want, err := Build(testStub(headers, 0), sections)
			if err != nil {
				t.Fatal(err)
			}

			got, err := Replace(plain, long)
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("headers of %d bytes, longer %s: not as Build makes it: %v",
					headers, s.Name, err)
			}
			back, err := Replace(got, s)
			if err != nil || !bytes.Equal(back, plain) {
				t.Errorf("headers of %d bytes, %s as before: not as Build makes it: %v",
					headers, s.Name, err)
			}
		}
	}
}

func TestRemove(t *testing.T) {
	const headers = 1024 // There is room for one more section.
	plain, err := Build(testStub(headers, 0), testSections())
	if err != nil {
		t.Fatal(err)
	}

	for _, section := range []string{".pcrpkey", ".pcrsig", LoaderSignature} {
		added, err := Replace(plain, Section{section, []byte("text")})
		if err != nil {
			t.Fatal(err)
		}
		checkLayout(t, added)

		for range 2 {
			added, err = Remove(added, section)
			if err != nil || !bytes.Equal(added, plain) {
				t.Errorf("without %s again, it is not as Build makes it: %v", section, err)
			}
		}
	}

	if _, err := Remove(plain, ".sbat"); err == nil {
		t.Error("a section of the stub is removed")
	}
}

func TestReplaceRefuses(t *testing.T) {
	plain, err := Build(testStub(1024, 0), testSections())
	if err != nil {
		t.Fatal(err)
	}

	for _, tc := range []struct {
		name  string
		image []byte
		s     Section
		err   string
	}{
		{"a section of the stub", plain, Section{".text", []byte("x")}, "want one of"},
		{"an empty section", plain, Section{LoaderSignature, nil}, "with content"},
		{
			"no UKI",
			[]byte("what"),
			Section{LoaderSignature, []byte("x")},
			"replace section .ldrsig",
		},
	} {
		if _, err := Replace(tc.image, tc.s); err == nil || !strings.Contains(err.Error(), tc.err) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}
