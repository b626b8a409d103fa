package cmdline_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/cmdline"
)

func TestParse(t *testing.T) {
	for _, test := range []struct {
		name, text string
		want       cmdline.Cmdline
	}{
		{name: "nothing", text: " \n", want: nil},
		{name: "a flag", text: "quiet\n", want: cmdline.Cmdline{{Key: "quiet"}}},
		{
			name: "a value",
			text: "root=/dev/sda1",
			want: cmdline.Cmdline{{Key: "root", Value: "/dev/sda1", HasValue: true}},
		},
		{
			name: "an empty value",
			text: "a= b",
			want: cmdline.Cmdline{{Key: "a", HasValue: true}, {Key: "b"}},
		},
		{
			name: "an equals sign in the value",
			text: "a=b=c",
			want: cmdline.Cmdline{{Key: "a", Value: "b=c", HasValue: true}},
		},
		{
			name: "quotes around the value",
			text: `a="b c" d`,
			want: cmdline.Cmdline{{Key: "a", Value: "b c", HasValue: true}, {Key: "d"}},
		},
		{
			name: "quotes around the parameter",
			text: `"a=b c" d`,
			want: cmdline.Cmdline{{Key: "a", Value: "b c", HasValue: true}, {Key: "d"}},
		},
		{
			name: "quotes within the value stay",
			text: `a=b" "c`,
			want: cmdline.Cmdline{{Key: "a", Value: `b" "c`, HasValue: true}},
		},
		{name: "quotes around a flag", text: `"a b"`, want: cmdline.Cmdline{{Key: "a b"}}},
		{
			name: "a quote that is never closed",
			text: `a="b c`,
			want: cmdline.Cmdline{{Key: "a", Value: "b c", HasValue: true}},
		},
		{name: "an equals sign at the start", text: "=a", want: cmdline.Cmdline{{Key: "=a"}}},
		{
			name: "arguments of init are left out",
			text: "a -- b=c",
			want: cmdline.Cmdline{{Key: "a"}},
		},
		{
			name: "any white space separates",
			text: "a\tb\nc",
			want: cmdline.Cmdline{{Key: "a"}, {Key: "b"}, {Key: "c"}},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, cmdline.Parse(test.text)); diff != "" {
				t.Errorf("Parse(%q) (-want +got):\n%s", test.text, diff)
			}
		})
	}
}

func TestGetAndList(t *testing.T) {
	parsed := cmdline.Parse("console=tty0 loam.a-b=1 console=ttyS0 loam.a_b=2 quiet")
	if value, ok := parsed.Get("loam.a_b"); value != "2" || !ok {
		t.Errorf("Get(loam.a_b) = %q, %t, want the last one", value, ok)
	}
	if value, ok := parsed.Get("quiet"); value != "" || !ok {
		t.Errorf("Get(quiet) = %q, %t, want an empty value", value, ok)
	}
	if _, ok := parsed.Get("absent"); ok {
		t.Error("Get(absent) is ok")
	}

	if diff := cmp.Diff([]string{"tty0", "ttyS0"}, parsed.List("console")); diff != "" {
		t.Errorf("List(console) (-want +got):\n%s", diff)
	}
}

// FuzzParse checks that only quotes and white space are dropped.
func FuzzParse(f *testing.F) {
	f.Add(`BOOT_IMAGE=/vmlinuz root=PARTUUID=1 "a=b c" d="e f" quiet -- g`)
	f.Add(`a"b c"="d" ="`)
	drop := strings.NewReplacer(`"`, "", " ", "", "\t", "", "\n", "", "\v", "", "\f", "", "\r", "")
	f.Fuzz(func(t *testing.T, text string) {
		var back strings.Builder
		for _, param := range cmdline.Parse(text) {
			back.WriteString(param.Key)
			if param.HasValue {
				back.WriteString("=")
			}
			back.WriteString(param.Value)
		}

		got := drop.Replace(back.String())
		want := drop.Replace(text)
		if got != want && !strings.HasPrefix(want, got+"--") {
			t.Errorf("Parse(%q) keeps %q, want %q", text, got, want)
		}
	})
}
