package repository

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var content = []byte("0123456789abcdefghijklmnopqrstuvwxyz")

// TestStores: a directory, file:// and a web server all answer alike.
func TestStores(t *testing.T) {
	dir := t.TempDir()
	err := errors.Join(os.Mkdir(filepath.Join(dir, "sub"), 0o755),
		os.WriteFile(filepath.Join(dir, "sub/file"), content, 0o644),
		os.WriteFile(filepath.Join(dir, "empty"), nil, 0o644))
	if err != nil {
		t.Fatal(err)
	}

	server := httptest.NewServer(http.FileServer(http.Dir(dir)))
	defer server.Close()
	for _, ref := range []string{
		dir, "file://" + dir, server.URL, server.URL + "/",
		strings.Replace(server.URL, "http://", "http://user:secret@", 1),
	} {
		t.Run(ref, func(t *testing.T) {
			s, err := Open(ref)
			if err != nil {
				t.Fatal(err)
			}
			checkGet(t, s)
			checkRanges(t, s)
		})
	}
}

func checkGet(t *testing.T, s Store) {
	t.Helper()
	for _, tc := range []struct {
		name string
		max  int64
		want []byte
		err  error
	}{
		{"sub/file", 36, content, nil},
		{"sub/file", 35, nil, ErrTooLarge},
		{"empty", 0, nil, nil},
		{"none", 36, nil, ErrNotFound},
	} {
		got, err := s.Get(t.Context(), tc.name, tc.max)
		if !errors.Is(err, tc.err) || !bytes.Equal(got, tc.want) {
			t.Errorf("Get %s: %q, %v", tc.name, got, err)
		}
	}

	for _, name := range []string{
		"", ".", "../file", "/etc/passwd", "sub/../sub/file", "sub//file", `sub\file`, "sub/file?x",
	} {
		got, err := s.Get(t.Context(), name, 1<<20)
		if err == nil || !strings.Contains(err.Error(), "not a name") {
			t.Errorf("Get %q: %q, %v", name, got, err)
		}
	}
}

func checkRanges(t *testing.T, s Store) {
	t.Helper()

	for _, tc := range []struct {
		name   string
		off, n int64
		want   string
		err    error
	}{
		{"sub/file", 0, 10, "0123456789", nil},
		{"sub/file", 10, 26, "abcdefghijklmnopqrstuvwxyz", nil},
		{"sub/file", 35, 1, "z", nil},
		{"sub/file", 35, 2, "", ErrRange},
		{"sub/file", 36, 1, "", ErrRange},
		{"sub/file", -1, 1, "", ErrRange},
		{"sub/file", 0, 0, "", ErrRange},
		{"sub/file", 1 << 62, 1 << 62, "", ErrRange},
		{"none", 0, 1, "", ErrNotFound},
	} {
		got, err := readRange(t, s, tc.name, tc.off, tc.n)
		if !errors.Is(err, tc.err) || string(got) != tc.want {
			t.Errorf("Range %s %d+%d: %q, %v, want %q, %v",
				tc.name, tc.off, tc.n, got, err, tc.want, tc.err)
		}
	}
}

// readRange reads a range until its end or an error.
func readRange(t testing.TB, s Store, name string, off, n int64) ([]byte, error) {
	t.Helper()
	body, err := s.Range(t.Context(), name, off, n)
	if err != nil {
		return nil, err
	}
	defer body.Close()

	return io.ReadAll(body)
}

func TestADirectoryIsNotLeft(t *testing.T) {
	dir := t.TempDir()
	err := errors.Join(os.Symlink("/etc/passwd", filepath.Join(dir, "out")),
		os.Mkdir(filepath.Join(dir, "sub"), 0o755))
	if err != nil {
		t.Fatal(err)
	}

	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}

	for _, name := range []string{"out", "sub"} {
		if got, err := s.Get(t.Context(), name, 1<<20); err == nil {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	for _, tc := range []struct{ ref, err string }{
		{"none", "no such file"},
		{"store_test.go", "not a directory"},
		{"ftp://host/dir", "want a directory"},
		{"oci://host", "want oci://HOST/NAME:TAG"},
		{"oci://ada:s3cret@host/a:1", "repository oci://ada:xxxxx@host/a:1: want oci://HOST/NAME:TAG"},
		{"http:///dir", "want a directory"},
		{"file://host/dir", "want a directory"},
		{"https://host/dir?token=secret", "want a directory"},
		{"https://[host", "repository https://[host: not a URL"},
		{"https://ada:s3/cret@host/a", "repository https://xxxxx@host/a: not a URL"},
		{"oci://ada:s3/cret@host/a", "repository oci://xxxxx@host/a: want oci://HOST/NAME:TAG"},
	} {
		if _, err := Open(tc.ref); err == nil || !strings.Contains(err.Error(), tc.err) {
			t.Errorf("%s: error %v, want %q", tc.ref, err, tc.err)
		}
	}

	if _, err := Open("https://host", CAs([]byte("none"))); err == nil {
		t.Error("CAs without a certificate: accepted")
	}
}
