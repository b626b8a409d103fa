package inventory

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loam-os/loam/agent/trust"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/image/pxe"
)

const (
	head  = "apiVersion: loam.dev/v1alpha1\nkind: Machine\n"
	mac   = "52:54:00:12:34:56"
	other = "52:54:00:12:34:57"
	id    = "0f5a2a14-9f3c-4c53-a1d6-52fd2ac9d6a1"
)

// files makes an inventory with these files, each with its own name as host
// name.
func files(t *testing.T, names ...string) *os.Root {
	t.Helper()
	dir := t.TempDir()
	for _, name := range names {
		err := os.WriteFile(filepath.Join(dir, name), []byte(head+"# "+name+"\n"), 0o644)
		if err != nil {
			t.Fatal(err)
		}
	}

	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })

	return root
}

func TestFind(t *testing.T) {
	for _, test := range []struct {
		name         string
		files        []string
		macs         []string
		serial, uuid string
		want         string
		wantErr      string
	}{
		{
			name:  "by MAC",
			files: []string{mac + ".yaml", Default},
			macs:  []string{mac},
			want:  mac + ".yaml",
		},
		{
			name:  "by the second MAC",
			files: []string{mac + ".yaml"},
			macs:  []string{other, mac},
			want:  mac + ".yaml",
		},
		{
			name:  "by a MAC with dashes and capitals",
			files: []string{"52-54-00-AB-34-56.yaml"},
			macs:  []string{"52:54:00:ab:34:56"},
			want:  "52-54-00-AB-34-56.yaml",
		},
		{
			name:   "by serial number",
			files:  []string{"serial-ABC 1.yaml", Default},
			macs:   []string{mac},
			serial: "ABC 1",
			want:   "serial-ABC 1.yaml",
		},
		{
			name:  "by UUID",
			files: []string{"uuid-" + strings.ToUpper(id) + ".yaml"},
			macs:  []string{mac},
			uuid:  id,
			want:  "uuid-" + strings.ToUpper(id) + ".yaml",
		},
		{
			name:  "the default",
			files: []string{other + ".yaml", Default},
			macs:  []string{mac},
			want:  Default,
		},
		{
			name:  "beside what an editor leaves",
			files: []string{".x.swp", "default.yaml~", Default},
			macs:  []string{mac},
			want:  Default,
		},
		{
			name:  "beside a file for no machine",
			files: []string{"README", "4913", mac + ".yml", Default},
			macs:  []string{mac},
			want:  Default,
		},
		{
			name:  "beside two for another",
			files: []string{other + ".yaml", "52-54-00-12-34-57.yaml", Default},
			macs:  []string{mac},
			want:  Default,
		},
		{
			name:    "two for its MAC",
			files:   []string{mac + ".yaml", "52-54-00-12-34-56.yaml"},
			macs:    []string{mac},
			wantErr: "are all for this machine",
		},
		{
			name:    "none",
			files:   []string{other + ".yaml"},
			macs:    []string{mac},
			wantErr: "no machine.yaml for " + mac,
		},
		{
			name:    "two",
			files:   []string{mac + ".yaml", "serial-S.yaml"},
			macs:    []string{mac},
			serial:  "S",
			wantErr: mac + ".yaml and serial-S.yaml are all for this machine",
		},
		{
			name:   "a serial number that is a path",
			files:  []string{Default},
			macs:   []string{mac},
			serial: "../../etc/passwd",
			want:   Default,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := Find(files(t, test.files...), test.macs, test.serial, test.uuid)
			if test.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), test.wantErr) {
					t.Errorf("error %v, want %q", err, test.wantErr)
				}
				return
			}
			if err != nil || got.Name != test.want {
				t.Errorf("%q, %v, want %q", got.Name, err, test.want)
			}
		})
	}

	if _, err := Find(files(t), []string{mac}, "", ""); !errors.Is(err, pxe.ErrNone) {
		t.Errorf("error %v", err)
	}
}

func TestAdmit(t *testing.T) {
	for _, test := range []struct {
		name, file string
		uuids      []string
		want       bool
	}{
		{"its MAC", mac + ".yaml", nil, true},
		{"another's MAC", other + ".yaml", nil, false},
		{"any machine", Default, nil, true},
		{"a serial number, which DHCP does not say", "serial-S.yaml", nil, true},
		{"its UUID", "uuid-" + id + ".yaml", []string{"x", id}, true},
		{"another's UUID", "uuid-" + id + ".yaml", []string{"x"}, false},
		{"a UUID, of a machine that says none", "uuid-" + id + ".yaml", nil, true},
		{"nobody", "README", nil, false},
	} {
		if err := Admit(files(t, test.file), mac, test.uuids); (err == nil) != test.want {
			t.Errorf("a file for %s: %v", test.name, err)
		}
	}
}

func TestCheckRefuses(t *testing.T) {
	for _, test := range []struct{ name, text, wantErr string }{
		{"nuc-1.yaml", head, "nuc-1.yaml names no machine\nhint: call it 52:54:00:12:34:56.yaml"},
		{mac + ".yml", head, "names no machine"},
		{"serial-.yaml", head, "names no machine"},
		{"uuid-1.yaml", head, "names no machine"},
		{
			mac + ".yaml",
			head + "hostName: x\n",
			mac + ".yaml:3: hostName: unknown field; hint: did you mean hostname?",
		},
		{Default, head + "hostname: <<BOOTSTRAP_TOKEN>>x\n", ""},
		{
			Default,
			head + "source: {cluster: {bootstrapToken: <<JOIN>>}}\n",
			"bootstrapToken: is not a bootstrap token",
		},
	} {
		root := files(t)
		if err := root.WriteFile(test.name, []byte(test.text), 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := Check(root)
		if (err != nil) != (test.wantErr != "") ||
			(err != nil && !strings.Contains(hint.Text(err), test.wantErr)) {
			t.Errorf("%s: error %v, want %q", test.name, err, test.wantErr)
		}
	}

	_, err := Check(files(t, mac+".yaml", "52-54-00-12-34-56.yaml"))
	if err == nil || !strings.Contains(err.Error(), "for the same machine") {
		t.Errorf("one machine twice: %v", err)
	}
}

// TestASignedFileIsServedAsItIs: its signature covers every byte.
func TestASignedFileIsServedAsItIs(t *testing.T) {
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	signed, err := trust.Sign([]byte(head+"install: {disk: {serial: S1}}\n"), 1, key)
	if err != nil {
		t.Fatal(err)
	}

	root := files(t)
	if err := root.WriteFile(mac+".yaml", signed, 0o644); err != nil {
		t.Fatal(err)
	}
	e, err := Find(root, []string{mac}, "", "")
	if err != nil || !e.Installs || e.WantsToken() || !bytes.Equal(e.With(""), signed) {
		t.Errorf("%+v, %v", e, err)
	}
}

// TestAChangeCounts reads an inventory while it is edited.
func TestAChangeCounts(t *testing.T) {
	root := files(t, Default)
	entries, err := Check(root)
	if err != nil || len(entries) != 1 || entries[0].Own() || entries[0].WantsToken() {
		t.Fatalf("%+v, %v", entries, err)
	}

	err = root.WriteFile(mac+".yaml", []byte(head+"hostname: a # "+Placeholder+"\n"), 0o644)
	if err != nil {
		t.Fatal(err)
	}

	e, err := Find(root, []string{mac}, "", "")
	if err != nil || !e.Own() || !e.WantsToken() ||
		string(e.With("abc")) != head+"hostname: a # abc\n" {
		t.Errorf("%+v, %v", e, err)
	}

	if err := root.WriteFile(mac+".yaml", []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Find(root, []string{mac}, "", ""); err == nil {
		t.Error("a machine gets a file with a mistake")
	}
}
