package uki

import (
	"bytes"
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
		{"a section before others", plain, Section{".osrel", []byte("x")}, "want the last of"},
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
