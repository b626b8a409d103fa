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
		{"http://ada:1/s3cret@host", "http://xxxxx@host"},
		{"ftp://ada:80/s3#cr?et@host:21/a", "ftp://xxxxx@host:21/a"},
		{"https://[2001:db8::1]:8080/a@b", "https://[2001:db8::1]:8080/a@b"},
		{"https://host:5000/v2/name@sha256:0123", "https://host:5000/v2/name@sha256:0123"},
		{`the URL "http://ada:s3/cret@host" is wrong`, `the URL "http://xxxxx@host" is wrong`},
		{"two: http://a:s3cret@b, http://c:s3/cret@d, and e@f",
			"two: http://a:xxxxx@b, http://xxxxx@d, and e@f"},
	} {
		if got := URLs(tt.text); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.text, got, tt.want)
		}
		if again := URLs(tt.want); again != tt.want {
			t.Errorf("%s becomes %s", tt.want, again)
		}
	}
}

func TestTokens(t *testing.T) {
	const text = "abcdef.0123456789abcdef, and v1.2, and abcdef.0123456789abcdef0"
	const want = "abcdef.xxxxx, and v1.2, and abcdef.0123456789abcdef0"
	if got := Tokens(text); got != want {
		t.Errorf("%s, want %s", got, want)
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
