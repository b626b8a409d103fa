package osrelease

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	for _, test := range []struct {
		name, text string
		want       map[string]string
	}{
		{"nothing", "", map[string]string{}},
		{"quotes of both kinds, a comment, a blank line", "ID=loam\nNAME=\"Loam OS\"\n\n" +
			"# VERSION=1\nIMAGE_VERSION='0.1.0'\n",
			map[string]string{"ID": "loam", "NAME": "Loam OS", "IMAGE_VERSION": "0.1.0"}},
		{"the last of two counts", "ID=a\nID=b\n", map[string]string{"ID": "b"}},
		{"a section of a UKI, padded with zeros", "ID=loam\n" +
			"IMAGE_ID=x\x00\x00", map[string]string{"ID": "loam", "IMAGE_ID": "x"}},
		{"what is no assignment", "loam\n=x", map[string]string{"": "x"}},
		{"spaces around a line", "  ID=loam \r\n", map[string]string{"ID": "loam"}},
	} {
		if diff := cmp.Diff(test.want, Parse([]byte(test.text))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}
