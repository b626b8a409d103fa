package source_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/document"
	"github.com/loam-os/loam/agent/machine"
	"github.com/loam-os/loam/agent/source"
	"github.com/loam-os/loam/hint"
)

// fakeESP holds files by path. An entry "broken" cannot be read.
type fakeESP map[string]string

func (f fakeESP) Open(path string) (io.ReadCloser, error) {
	text, ok := f[path]
	if !ok {
		return nil, fs.ErrNotExist
	}
	if text == "broken" {
		return nil, errors.New("input/output error")
	}
	return io.NopCloser(strings.NewReader(text)), nil
}

// fakeDrive holds files by name. An entry "broken" cannot be read.
type fakeDrive map[string]string

func (fakeDrive) String() string { return "drive /dev/vdb (CIDATA)" }

func (f fakeDrive) Serial() string { return f["serial"] }

func (f fakeDrive) Read(limit int64, names ...string) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, name := range names {
		if text, ok := f[name]; ok {
			files[name] = []byte(text)
		}
	}
	if _, ok := f["broken"]; ok {
		return nil, errors.New("input/output error")
	}
	return files, nil
}

func on(drives ...source.Drive) func() ([]source.Drive, error) {
	return func() ([]source.Drive, error) { return drives, nil }
}

func TestFind(t *testing.T) {
	dir := t.TempDir()
	firmware := filepath.Join(dir, "by_name")
	write(t, filepath.Join(firmware, "opt/loam/machine.yaml/raw"), "from QEMU")
	drive := on(fakeDrive{"machine.yaml": "from the drive"})
	write(t, filepath.Join(dir, "m.yaml"), "from the file")
	credentials := filepath.Join(dir, "credentials")
	write(t, filepath.Join(credentials, "loam.machine"), "from the credential")

	unreadable := filepath.Join(dir, "unreadable")
	if err := os.MkdirAll(filepath.Join(unreadable, "loam.machine"), 0o700); err != nil {
		t.Fatal(err)
	}

	esp := fakeESP{"/loam/machine.yaml": "from the ESP", "/x.yaml": "from elsewhere on the ESP"}
	all := source.Env{
		Cmdline:        "loam.config=file:" + dir + "/m.yaml",
		Credentials:    credentials,
		FirmwareConfig: firmware,
		ESP:            esp,
		Drives:         drive,
	}

	for _, test := range []struct {
		name     string
		env      source.Env
		want     string
		wantName string
		wantErr  string
	}{
		{
			name:     "the kernel command line comes first",
			env:      all,
			want:     "from the file",
			wantName: dir + "/m.yaml",
		},
		{
			name: "the kernel command line may name a file of the ESP",
			env: source.Env{
				Cmdline:     "quiet loam.config=esp:/x.yaml",
				Credentials: credentials,
				ESP:         esp,
			},
			want:     "from elsewhere on the ESP",
			wantName: "ESP file /x.yaml",
		},
		{
			name: "then comes the credential",
			env: source.Env{
				Credentials:    credentials,
				FirmwareConfig: firmware,
				ESP:            esp,
				Drives:         drive,
			},
			want:     "from the credential",
			wantName: "credential loam.machine",
		},
		{
			name: "then comes fw_cfg",
			env: source.Env{
				Credentials:    dir,
				FirmwareConfig: firmware,
				ESP:            esp,
				Drives:         drive,
			},
			want:     "from QEMU",
			wantName: "fw_cfg opt/loam/machine.yaml",
		},
		{
			name: "then comes the file that the node was started with",
			env: source.Env{
				Credentials:    dir,
				FirmwareConfig: dir,
				Given:          dir + "/m.yaml",
				ESP:            esp,
				Drives:         drive,
			},
			want:     "from the file",
			wantName: dir + "/m.yaml",
		},
		{
			name: "then comes the ESP",
			env: source.Env{
				Credentials:    dir,
				FirmwareConfig: dir,
				ESP:            esp,
				Drives:         drive,
			},
			want:     "from the ESP",
			wantName: "ESP file /loam/machine.yaml",
		},
		{
			name: "then comes a drive",
			env: source.Env{
				Credentials:    dir,
				FirmwareConfig: dir,
				ESP:            fakeESP{},
				Drives:         drive,
			},
			want:     "from the drive",
			wantName: "machine.yaml of drive /dev/vdb (CIDATA)",
		},
		{
			name:    "a node without a machine.yaml",
			env:     source.Env{ESP: fakeESP{}},
			wantErr: source.ErrNone.Error(),
		},
		{name: "a node without an ESP", env: source.Env{}, wantErr: source.ErrNone.Error()},
		{
			name:    "a missing file on the command line is an error",
			env:     source.Env{Cmdline: "loam.config=file:/absent", Credentials: credentials},
			wantErr: "kernel parameter loam.config: /absent: no document",
		},
		{
			name:    "an invalid parameter is an error",
			env:     source.Env{Cmdline: "loam.config=http://x/", Credentials: credentials},
			wantErr: "kernel parameter loam.config=http://x/: want file:/PATH or esp:/PATH",
		},
		{
			name:    "a relative path on the command line is an error",
			env:     source.Env{Cmdline: "loam.config=file:x"},
			wantErr: "kernel parameter loam.config=file:x: want file:/PATH or esp:/PATH",
		},
		{
			name: "an ESP file without an ESP is an error",
			env:  source.Env{Cmdline: "loam.config=esp:/x"},
			wantErr: "kernel parameter loam.config: ESP file /x: " +
				"this node has no EFI system partition",
		},
		{
			name:    "an unreadable credential is an error",
			env:     source.Env{Credentials: unreadable, ESP: esp},
			wantErr: "read credential loam.machine: not a regular file",
		},
		{
			name:    "an unreadable ESP is an error",
			env:     source.Env{ESP: fakeESP{"/loam/machine.yaml": "broken"}},
			wantErr: "read ESP file /loam/machine.yaml: input/output error",
		},
		{
			name:    "an unreadable ESP is an error, also with a drive",
			env:     source.Env{ESP: fakeESP{"/loam/machine.yaml": "broken"}, Drives: drive},
			wantErr: "read ESP file /loam/machine.yaml: input/output error",
		},
		{
			name: "a file that is too large is an error",
			env: source.Env{
				ESP: fakeESP{"/loam/machine.yaml": strings.Repeat("x", document.MaxSize+1)},
			},
			wantErr: "read ESP file /loam/machine.yaml: more than 1572864 bytes",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			found, err := source.Find(t.Context(), test.env)
			if got := message(err); got != test.wantErr {
				t.Fatalf("Find: error %q, want %q", got, test.wantErr)
			}
			if string(found.Text) != test.want || found.Name != test.wantName {
				t.Errorf("Find = %q from %q, want %q from %q",
					found.Text, found.Name, test.want, test.wantName)
			}
		})
	}
}

func TestFindOnADrive(t *testing.T) {
	const cidata, machine = "drive /dev/vdb (CIDATA)", "kind: Machine\n"

	for _, test := range []struct {
		name     string
		drives   func() ([]source.Drive, error)
		want     source.Document
		wantErr  string
		wantNone bool
	}{
		{
			name:     "no drive",
			drives:   on(),
			wantErr:  source.ErrNone.Error(),
			wantNone: true,
		},
		{
			name:   "user-data that is a machine.yaml",
			drives: on(fakeDrive{"user-data": "apiVersion: loam.dev/v1alpha1\n" + machine}),
			want: source.Document{
				Name: "user-data of " + cidata,
				Text: []byte("apiVersion: loam.dev/v1alpha1\n" + machine),
			},
		},
		{
			name:   "user-data with our first line, whatever is in it",
			drives: on(fakeDrive{"user-data": "#loam\nkindd: x\n"}),
			want: source.Document{
				Name: "user-data of " + cidata,
				Text: []byte("#loam\n" +
					"kindd: x\n"),
			},
		},
		{
			name:   "user-data as JSON",
			drives: on(fakeDrive{"user-data": "{\n\"kind\": \"Machine\"}"}),
			want: source.Document{
				Name: "user-data of " + cidata,
				Text: []byte("{\n" +
					"\"kind\": \"Machine\"}"),
			},
		},
		{
			name:   "machine.yaml beside the user-data of cloud-init",
			drives: on(fakeDrive{"machine.yaml": machine, "user-data": "#cloud-config\n"}),
			want:   source.Document{Name: "machine.yaml of " + cidata, Text: []byte(machine)},
		},
		{
			name: "the host name in meta-data, in lower case",
			drives: on(fakeDrive{
				"machine.yaml": machine,
				"meta-data": "instance-id: x\n" +
					"local-hostname: Node-1\n",
			}),
			want: source.Document{
				Name:     "machine.yaml of " + cidata,
				Text:     []byte(machine),
				Hostname: "node-1",
			},
		},
		{
			name:    "meta-data that is not YAML is an error",
			drives:  on(fakeDrive{"machine.yaml": machine, "meta-data": "a: [}"}),
			wantErr: "meta-data of " + cidata + ": yaml: did not find expected node content",
		},
		{
			name:   "user-data of cloud-init only is an error",
			drives: on(fakeDrive{"user-data": "#cloud-config\nkind: Machines\n"}),
			wantErr: cidata + ": no machine.yaml, and a user-data that begins with " +
				"\"#cloud-config\"\n" +
				"hint: give it a machine.yaml, or make it the user-data, " +
				"with #loam as its first line",
		},
		{
			name:    "a drive without these files is an error",
			drives:  on(fakeDrive{}),
			wantErr: cidata + ": neither machine.yaml nor user-data\nhint: give it a machine.yaml",
		},
		{
			name:    "a drive that cannot be read is an error",
			drives:  on(fakeDrive{"broken": ""}),
			wantErr: "input/output error",
		},
		{
			name:   "two drives are an error",
			drives: on(fakeDrive{"machine.yaml": machine}, fakeDrive{}),
			wantErr: "machine.yaml may be on any of " + cidata + ", " + cidata + "\n" +
				"hint: attach only the drive of this node",
		},
		{
			name:    "drives that cannot be listed are an error",
			drives:  func() ([]source.Drive, error) { return nil, errors.New("read /dev/sda: x") },
			wantErr: "read /dev/sda: x",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			found, err := source.Find(t.Context(), source.Env{Drives: test.drives})
			if test.want.Name != "" {
				test.want.Kind = source.FromDrive
			}
			got := message(err)
			if got != test.wantErr || errors.Is(err, source.ErrNone) != test.wantNone {
				t.Fatalf("Find: error %q, want %q", got, test.wantErr)
			}
			if diff := cmp.Diff(test.want, found); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestUserDataThatIsOurs has the ways to write a machine.yaml as user-data.
func TestUserDataThatIsOurs(t *testing.T) {
	for text, want := range map[string]bool{
		"kind: Machine\n": true,
		"kind: Machine\r\napiVersion: loam.dev/v1alpha1\r\n":      true,
		"\ufeff#loam\nhostname: a\n":                              true,
		"\ufeffkind: Machine\n":                                   true,
		"#loam\r\nhostname: a\r\n":                                true,
		"---\n# mine\nkind: 'Machine'\n":                          true,
		"kind : Machine\n":                                        true,
		"\"kind\": Machine\n":                                     true,
		"kind: !!str Machine\n":                                   true,
		`{"kind":"Machine","apiVersion":"loam.dev/v1alpha1"}`:     true,
		`{"apiVersion":"loam.dev/v1alpha1","kind":"Machine"}`:     true,
		`{"apiVersion": "a", "network": {}, "kind" : "Machine"}`:  true,
		"{apiVersion: a, kind: Machine}":                          true,
		"{\n  \"kind\": \"Machine\"\n}\n":                         true,
		"{\n\t\"apiVersion\": \"a\",\n\t\"kind\": \"Machine\"\n}": true,
		"  kind: Machine\n  hostname: a\n":                        true,
		"kind: Machine\nbroken: [\n":                              true,
		`{"apiVersion": "a", "kind": "Machine", "hostname": }`:    true,

		"#cloud-config\nusers: []\n":                                          false,
		"#cloud-config\nwrite_files:\n- content: |\n    kinds: Machine\n":     false,
		"#!/bin/sh\necho kind: Machine\n":                                     false,
		"#loamy\n":                                                            false,
		`{"write_files": [{"content": "x"}], "a": {"kind": "Machine"}}`:       false,
		"kind: Machines\n":                                                    false,
		"kind: Pod\nspec: Machine\n":                                          false,
		"Content-Type: multipart/mixed; boundary=x\nMIME-Version: 1.0\n\nx\n": false,
		"": false,
	} {
		drive := fakeDrive{"user-data": text}
		doc, err := source.Find(t.Context(), source.Env{Drives: on(drive)})
		if (err == nil) != want {
			t.Errorf("%q: %v, want it recognised: %t", text, err, want)
		}
		if plain := strings.TrimPrefix(text, "\ufeff"); err == nil && string(doc.Text) != plain {
			t.Errorf("%q: read as %q", text, doc.Text)
		}
	}
}

// TestNamesInMetaData has meta-data that cloud-init reads, or somebody wrote by
// hand.
func TestNamesInMetaData(t *testing.T) {
	for text, want := range map[string]string{
		"local-hostname: node-1\n":                                 "node-1",
		"local-hostname: Node-1.\n":                                "node-1.",
		"local-hostname: node-1\nlocal-hostname: node-2\n":         "node-2",
		"instance-id: a\ninstance-id: b\nlocal-hostname: node-1\n": "node-1",
		"local-hostname:\tnode-1\n":                                "node-1",
		"\tinstance-id: a\nlocal-hostname: \"node-1\" # mine\n":    "node-1",
		"\ufefflocal-hostname: node-1\r\n":                         "node-1",
		`{"instance-id": "a", "local-hostname": "node-1"}`:         "node-1",
		"local-hostname: 0042\n":                                   "0042",
		"local-hostname:\n":                                        "",
		"instance-id: a\n":                                         "",
		"- a\n":                                                    "",
		"":                                                         "",
	} {
		drive := fakeDrive{"machine.yaml": "kind: Machine\n", "meta-data": text}
		doc, err := source.Find(t.Context(), source.Env{Drives: on(drive)})
		if err != nil || doc.Hostname != want {
			t.Errorf("%q: %q, %v, want %q", text, doc.Hostname, err, want)
		}
	}
}

// A missing partition is not a partition without a machine.yaml.
func TestFindMissingPartition(t *testing.T) {
	_, err := source.Find(t.Context(),
		source.Env{ESP: source.Partition{Device: "/dev/no-such-device"}})
	if err == nil || errors.Is(err, source.ErrNone) || errors.Is(err, source.ErrAbsent) {
		t.Errorf("Find: error %v, want one about the device", err)
	}
}

func TestRead(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "plain"), "text")
	write(t, filepath.Join(dir, "loam.config"), "text")
	if err := os.Symlink("plain", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}

	if err := syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}

	err := os.Truncate(write(t, filepath.Join(dir, "large"), ""), document.MaxSize+1)
	if err != nil {
		t.Fatal(err)
	}

	env := source.Env{Credentials: dir, ESP: fakeESP{"/a": "text"}}
	file := func(name string) machine.Source {
		return machine.Source{File: &machine.File{Path: filepath.Join(dir, name)}}
	}

	for _, test := range []struct {
		name    string
		from    machine.Source
		env     source.Env
		want    string
		absent  bool
		wantErr string
	}{
		{name: "a file", from: file("plain"), want: "text"},
		{name: "a link", from: file("link"), want: "text"},
		{
			name:    "a missing file is absent",
			from:    file("none"),
			absent:  true,
			wantErr: dir + "/none: no document",
		},
		{
			name:    "a file below a file is absent",
			from:    file("plain/x"),
			absent:  true,
			wantErr: dir + "/plain/x: no document",
		},
		{
			name:    "a FIFO is an error at once",
			from:    file("fifo"),
			wantErr: "read " + dir + "/fifo: not a regular file",
		},
		{
			name:    "a large file is an error",
			from:    file("large"),
			wantErr: "read " + dir + "/large: more than 1572864 bytes",
		},
		{
			name: "a credential",
			from: machine.Source{Credential: &machine.Credential{Name: "loam.config"}},
			env:  env,
			want: "text",
		},
		{
			name:    "a missing credential is absent",
			from:    machine.Source{Credential: &machine.Credential{Name: "loam.x"}},
			absent:  true,
			wantErr: "credential loam.x: no document",
		},
		{
			name: "a file of the ESP",
			from: machine.Source{ESP: &machine.ESP{Path: "/a"}},
			env:  env,
			want: "text",
		},
		{
			name:    "a missing file of the ESP is absent",
			from:    machine.Source{ESP: &machine.ESP{Path: "/b"}},
			env:     env,
			absent:  true,
			wantErr: "ESP file /b: no document",
		},
		{
			name:    "no source is absent",
			absent:  true,
			wantErr: "machine.yaml names no source: no document",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := source.New(test.from, test.env).Read(t.Context())
			if message(err) != test.wantErr || errors.Is(err, source.ErrAbsent) != test.absent {
				t.Fatalf("Read: error %q, want %q, absent %t",
					message(err), test.wantErr, test.absent)
			}
			if string(got.Text) != test.want {
				t.Errorf("Read = %q, want %q", got.Text, test.want)
			}
		})
	}
}

// Sources that cannot change still end their channel with the context.
func TestWatchOfConstantSourceEnds(t *testing.T) {
	for name, from := range map[string]machine.Source{
		"none":       {},
		"credential": {Credential: &machine.Credential{Name: "loam.x"}},
		"ESP":        {ESP: &machine.ESP{Path: "/x"}},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			changes, err := source.New(from, source.Env{}).Watch(ctx)
			if err != nil {
				t.Fatal(err)
			}
			cancel()
			if _, open := <-changes; open {
				t.Error("a change was sent")
			}
		})
	}
}

// write creates a file with its directories and returns its path.
func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return hint.Text(err)
}
