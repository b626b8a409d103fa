package show

import (
	"strings"
	"testing"
)

func TestSize(t *testing.T) {
	var got []string
	for _, bytes := range []int64{
		0, 999, 1000, 1234, 9949, 9951, 99_949, 99_951, 999_499, 999_500, 91_312_345,
		1 << 40, 1 << 62,
	} {
		got = append(got, Size(bytes))
	}
	want := "0 B,999 B,1.00 kB,1.23 kB,9.95 kB,10.0 kB,99.9 kB,100 kB,999 kB,1.00 MB,91.3 " +
		"MB,1.10 TB,4.61 EB"
	if strings.Join(got, ",") != want {
		t.Errorf("%q, want %q", strings.Join(got, ","), want)
	}
}
