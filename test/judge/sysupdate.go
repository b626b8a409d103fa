package judge

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/loam-os/loam/image/tools"
)

// Sysupdate is systemd-sysupdate where a machine has Loam's updater.
type Sysupdate struct {
	// Disk is a raw disk image, ESP a directory that stands for its EFI system
	// partition.
	Disk, ESP string

	// URL is of a published directory; Arch is systemd's name, Running a
	// version.
	URL, Arch, Running string

	// Signed transfers signatures of root hashes, too.
	Signed bool

	// Keyring has the OpenPGP keys that sign the list of digests; "" if the
	// list is unsigned.
	Keyring string
}

// Run runs one of its verbs, which must succeed.
func (s Sysupdate) Run(t testing.TB, verb string) string {
	t.Helper()
	out, err := s.Try(t, verb)
	if err != nil {
		t.Fatalf("systemd-sysupdate %s: %v\n%s", verb, err, out)
	}
	return out
}

// Try runs one of its verbs.
func (s Sysupdate) Try(t testing.TB, verb string) (string, error) {
	t.Helper()
	transfers := t.TempDir()
	texts := map[string]string{
		"50-verity.transfer": "MatchPattern=loam-node-os_@v_ARCH_@u.verity\n[Target]\n" +
			"Type=partition\nPath=DISK\nMatchPattern=loam-node-os_@v\n" +
			"MatchPartitionType=root-ARCH-verity\nReadOnly=1\n",
		"60-root.transfer": "MatchPattern=loam-node-os_@v_ARCH_@u.root\n[Target]\n" +
			"Type=partition\nPath=DISK\nMatchPattern=loam-node-os_@v\n" +
			"MatchPartitionType=root-ARCH\nReadOnly=1\n",
		"70-uki.transfer": "MatchPattern=loam-node-os_@v_ARCH.efi\n[Target]\nType=regular-file\n" +
			"Path=ESP" +
			"\nMatchPattern=loam-node-os_@v_ARCH+@l-@d.efi loam-node-os_@v_ARCH.efi\nMode=0444\n" +
			"TriesLeft=3\nTriesDone=0\nInstancesMax=2\n",
	}

	if s.Signed {
		texts["55-verity-sig.transfer"] = strings.NewReplacer("@u.verity", "@u.verity-sig",
			"ARCH-verity", "ARCH-verity-sig").Replace(texts["50-verity.transfer"])
	}

	for name, text := range texts {
		text = "[Transfer]\nProtectVersion=" + s.Running + "\n[Source]\nType=url-file\n" +
			"Path=" + s.URL + "\n" + text
		text = strings.NewReplacer("ARCH", s.Arch, "DISK", s.Disk, "ESP", s.ESP).Replace(text)
		if err := os.WriteFile(filepath.Join(transfers, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	const program = "/usr/lib/systemd/systemd-sysupdate"
	args := []string{
		"--definitions=" + transfers, fmt.Sprintf("--verify=%v", s.Keyring != ""), verb,
	}

	if s.Keyring == "" {
		return Try(t, filepath.Base(program), args...)
	}

	cmd := tools.Tree{Dir: Dir(t, "LOAM_TOOLS_TREE")}.Command(t.Context(),
		[]string{os.TempDir(), filepath.Dir(s.Disk)}, program, args...)

	// Its own keyring is systemd-pull(8)'s, which has Ubuntu's keys.
	cmd.Args = slices.Insert(cmd.Args, slices.Index(cmd.Args, "--"), "--ro-bind", s.Keyring,
		"/usr/lib/systemd/import-pubring.gpg")
	out, err := cmd.CombinedOutput()
	return string(out), err
}
