package redact

import (
	"fmt"
	"strings"
	"testing"
)

func TestURLs(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"no URL, a@b and c:d@e", "no URL, a@b and c:d@e"},
		{"https://192.0.2.1:8080/a@b", "https://192.0.2.1:8080/a@b"},
		{"oci://host:5000/name:tag", "oci://host:5000/name:tag"},
		{"http://ada@host", "http://ada@host"},
		{"http://ada:s3cret@host:3128/a", "http://ada:xxxxx@host:3128/a"},
		{"http://ada:s3:cr@et@host", "http://ada:xxxxx@host"},
		{"http://ada:s3/cret@host", "http://xxxxx@host"},
		{"http://ada:/s3cret@host", "http://xxxxx@host"},
		{"http://ada:s3/cr@et/x@host:80/a", "http://xxxxx@host:80/a"},
		{"http://ada:s3#cret/1@host", "http://xxxxx@host"},
		{"http://ada:s3?cret/1@host", "http://xxxxx@host"},
		{"oci+http://ada:s3/cret%@host/name:tag", "oci+http://xxxxx@host/name:tag"},
		{`the URL "http://ada:s3/cret@host" is wrong`, `the URL "http://xxxxx@host" is wrong`},
		{"two: http://a:s3cret@b, http://c:s3/cret@d, and e@f",
			"two: http://a:xxxxx@b, http://xxxxx@d, and e@f"},
	} {
		if got := URLs(tt.text); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.text, got, tt.want)
		}
	}
}

func TestWriterMasksPasswords(t *testing.T) {
	var out strings.Builder
	n, err := fmt.Fprint(Writer{&out}, "GET http://ada:s3cret@host/a\n")
	if err != nil || n != len("GET http://ada:s3cret@host/a\n") {
		t.Errorf("%d bytes, %v", n, err)
	}
	if want := "GET http://ada:xxxxx@host/a\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}
