package show

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/plan"
)

// store has content by digest.
type store map[string]string

func (s store) read(e generation.Entry) ([]byte, error) {
	text, ok := s[e.Digest]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return []byte(text), nil
}

// file adds content to the store, at a path of a generation.
func (s store) file(mode fs.FileMode, text string) generation.Entry {
	c := config.Text(text)
	s[c.Digest] = text
	return generation.Entry{
		Path:   "/etc/a",
		Kind:   generation.KindFile,
		Mode:   mode,
		Digest: c.Digest,
		Size:   c.Size,
	}
}

func TestDifferenceOfOneFile(t *testing.T) {
	s := store{}
	link := generation.Entry{Path: "/etc/a", Kind: generation.KindLink, Target: "/etc/b"}
	otherLink := link
	otherLink.Target = "/etc/c"
	gone := s.file(0o644, "gone\n")
	delete(s, gone.Digest)
	const lines = "@@ -1,1 +1,1 @@\n-one\n+two\n"
	tests := []struct {
		name          string
		before, after generation.Entry
		secrets       bool
		about         string
		diff          bool
	}{
		{"a changed text", s.file(0o644, "one\n"), s.file(0o644, "two\n"), false, "0644", true},
		{
			"a mode alone",
			s.file(0o644, "one\n"),
			s.file(0o755|fs.ModeSetuid, "one\n"),
			false,
			"0644 -> 4755",
			false,
		},
		{
			"a text that only its owner may read",
			s.file(0o600, "one\n"),
			s.file(0o600, "two\n"),
			false,
			"0600, secret, 4 B",
			false,
		},
		{
			"a secret that becomes public",
			s.file(0o600, "one\n"),
			s.file(0o644, "two\n"),
			false,
			"0600 -> 0644, secret, 4 B",
			false,
		},
		{
			"a secret that is asked for",
			s.file(0o600, "one\n"),
			s.file(0o600, "two\n"),
			true,
			"0600",
			true,
		},
		{
			"a text that the group may read",
			s.file(0o640, "one\n"),
			s.file(0o640, "two\n"),
			false,
			"0640",
			true,
		},
		{
			"no text any more",
			s.file(0o644, "one\n"),
			s.file(0o644, "\x00"),
			false,
			"0644, binary, 4 B 2c8b08da5ce6 -> 1 B 6e340b9cffb3",
			false,
		},
		{
			"more than is compared",
			s.file(0o644, "one\n"),
			s.file(0o644, strings.Repeat("x", maxText+1)),
			false,
			"0644, larger than 1 MiB, 4 B 2c8b08da5ce6 -> 1.05 MB 154b8ed3c238",
			false,
		},
		{
			"content that is lost",
			gone,
			s.file(0o644, "two\n"),
			false,
			"0644, its content is not in the store, 5 B 4b9f2c32577b -> 4 B 27dd8ed44a83",
			false,
		},
		{
			"a link that leads elsewhere",
			link,
			otherLink,
			false,
			"link to /etc/b -> link to /etc/c",
			false,
		},
	}

	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			from := generation.Manifest{Entries: []generation.Entry{tt.before}}
			to := generation.Manifest{Entries: []generation.Entry{tt.after}}
			compared := Comparison{
				From:    from,
				To:      to,
				Read:    s.read,
				Secrets: tt.secrets,
			}
			files := compared.Difference().Files
			if len(files) != 1 {
				t.Fatalf("%d files differ", len(files))
			}

			if diff := cmp.Diff(tt.about, files[0].about()); diff != "" {
				t.Errorf("about (-want +got):\n%s", diff)
			}

			got := strings.HasSuffix(files[0].Diff, lines)
			if got != tt.diff || (!tt.diff && files[0].Diff != "") {
				t.Errorf("lines: %q", files[0].Diff)
			}
		})
	}
}

func TestLinkInPlaceOfAFileShowsTheFile(t *testing.T) {
	s := store{}
	from := generation.Manifest{Entries: []generation.Entry{s.file(0o644, "one\n")}}
	to := generation.Manifest{Entries: []generation.Entry{
		{Path: "/etc/a", Kind: generation.KindLink, Target: "/etc/b"},
	}}

	compared := Comparison{From: from, To: to, Read: s.read}
	f := compared.Difference().Files[0]
	if f.about() != "0644 -> link to /etc/b" ||
		!strings.Contains(f.Diff, "--- a/etc/a\n+++ /dev/null\n") {
		t.Errorf("%s\n%s", f.about(), f.Diff)
	}
}

func TestUncomparedContentIsNotRead(t *testing.T) {
	unread := func(generation.Entry) ([]byte, error) { return nil, errors.New("read") }
	was := generation.Entry{
		Path:   "/etc/a",
		Kind:   generation.KindFile,
		Mode:   0o644,
		Digest: "a",
		Size:   maxText + 1,
	}

	is := was
	is.Digest = "b"

	c := Comparison{
		From: generation.Manifest{Entries: []generation.Entry{was}},
		To:   generation.Manifest{Entries: []generation.Entry{is}},
		Read: unread,
	}
	if f := c.Difference().Files[0]; f.Withheld != large {
		t.Errorf("%+v", f)
	}
}

func TestUnits(t *testing.T) {
	up := generation.Unit{Name: "a.service", Enabled: true, Own: true}
	with := func(edit func(*generation.Unit)) generation.Unit { u := up; edit(&u); return u }
	tests := []struct {
		name string
		want generation.Unit
		text string
	}{
		{"nothing", up, ""},
		{"disabled", with(func(u *generation.Unit) {
			u.Enabled = false
			u.Stopped = true
		}), "was enabled, started; is disabled, stopped"},
		{
			"started by its timer",
			with(func(u *generation.Unit) { u.OnDemand = true }),
			"was started; is started on demand",
		},
		{
			"left to the image",
			with(func(u *generation.Unit) { u.Own = false }),
			"was on its own unit file; is on the image's unit file",
		},
		{"more reasons to restart", with(func(u *generation.Unit) {
			u.FilePaths = []string{"/etc/a"}
			u.BoundTo = []string{"b.service"}
		}),
			"is restarted with /etc/a, bound to b.service"},
		{"reload instead of restart", with(func(u *generation.Unit) {
			u.Reloads = true
			u.Restart = true
		}),
			"is restarted when first listed, reloaded instead of restarted"},
	}

	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := ""
			for _, u := range diffUnits([]generation.Unit{up}, []generation.Unit{tt.want}) {
				got += u.about()
				if u.Change != plan.Changed {
					t.Errorf("%s %s", u.Name, u.Change)
				}
			}
			if got != tt.text {
				t.Errorf("%q, want %q", got, tt.text)
			}
		})
	}
}
