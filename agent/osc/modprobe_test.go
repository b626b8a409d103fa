package osc_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loam-os/loam/agent/osc"
	"github.com/loam-os/loam/test/judge"
)

// closedRequests are names that the kernel has modprobe load on behalf of any
// process, and that the image closes.
var closedRequests = []string{"net-pf-40", "net-pf-15", "fs-btrfs", "fs-9p"}

// modprobeFiles are files of modprobe.d, and whether modprobe then loads what the
// image closes.
var modprobeFiles = []struct {
	name, text string
	opens      bool
}{
	{"nothing", "", false},
	{"a module for a closed protocol", "alias net-pf-40 vsock", true},
	{"with underscores", "alias net_pf_40 vsock", true},
	{"among blanks", "\t alias\tnet-pf-40   vsock ", true},
	{"for a closed file system", "alias fs-btrfs btrfs", true},
	{"for a pattern", "alias n* vsock", true},
	{"for a pattern that begins with brackets", "alias [m-o]et-pf-40 vsock", true},
	{"for a pattern of all names", "alias * vsock", true},
	{"in two lines", "ali\\\nas net-pf-\\\n40 vsock", true},
	{"with a backslash that is left out", "al\\ias net-p\\f-40 vsock", true},
	{"a program in the place of the closed module", "install off /sbin/modprobe vsock", true},
	{"a module before the closed one", "softdep off pre: vsock", true},
	{"a module after the closed one", "softdep off post: vsock", true},
	{"a program for a pattern", "install of? /sbin/modprobe vsock", true},
	{"a program for all modules", "install * /sbin/modprobe vsock", true},
	{"a program for a range", "install [n-p]ff /sbin/modprobe vsock", true},
	{"a program for all but a range", "install [!a-e]ff /sbin/modprobe vsock", true},
	{"a module before a pattern", "softdep o[f]f pre: vsock", true},
	{"a module after all modules", "softdep * post: vsock", true},
	{"the second line", "options loop max_loop=8\nalias net-pf-15 af_key", true},

	{"a comment", "# alias net-pf-40 vsock", false},
	{"a comment of two lines", "# a \\\nalias net-pf-40 vsock", false},
	{"another closed protocol", "alias net-pf-16-proto-6 off", false},
	{"a name of its own", "alias mine vsock", false},
	{"a pattern of devices", "alias pci:v00001AF4d* vsock", false},
	{"a module that does nothing", "install vsock /bin/true", false},
	{"a module that is not loaded for a device", "blacklist vsock", false},
	{"a program for the beginning of its name", "install of /sbin/modprobe vsock", false},
	{"a program for a range of other modules", "install [a-n]ff /sbin/modprobe vsock", false},
	{"an order of a pattern of drivers", "softdep nvme-* pre: vfio-pci", false},
	{"options", "options vsock x=1", false},
	{"an order of drivers", "softdep nvme pre: vfio-pci", false},
	{"a word that is unknown", "aliases net-pf-40 vsock", false},
	{"too few words", "alias net-pf-40", false},
}

// TestOnlyTheMachineOpensTheKernel: a document's file of modprobe.d, of whichever
// name, opens nothing that the image closes.
func TestOnlyTheMachineOpensTheKernel(t *testing.T) {
	for _, tt := range modprobeFiles {
		for _, path := range []string{"/etc/modprobe.d/x.conf", "/usr/local/lib/modprobe.d/a.conf"} {
			text := head + "  files:\n  - path: " + path + "\n    content: {inline: {data: \"" +
				escape(tt.text) + "\"}}\n"
			err := mergeText(text, osc.Env{})
			if accepts(err) == tt.opens {
				t.Errorf("%s: %s: %v", tt.name, path, err)
			} else if tt.opens && !strings.Contains(err.Error(), "kernel.modules of machine.yaml") {
				t.Errorf("%s: no hint in %v", tt.name, err)
			}
		}
	}
}

// TestModprobeOpensTheKernel asks modprobe what the files open.
func TestModprobeOpensTheKernel(t *testing.T) {
	tree := judge.Dir(t, "LOAM_ROOT_TREE")
	kernels, err := filepath.Glob(filepath.Join(tree, "usr/lib/modules/*"))
	if err != nil || len(kernels) != 1 {
		t.Fatal(kernels, err)
	}
	rules, err := os.ReadFile("../../mkosi/mkosi.extra/usr/lib/modprobe.d/loam.conf")
	if err != nil {
		t.Fatal(err)
	}

	for _, tt := range modprobeFiles {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range map[string]string{"loam": string(rules), "x": tt.text + "\n"} {
				err := os.WriteFile(filepath.Join(dir, name+".conf"), []byte(text), 0o644)
				if err != nil {
					t.Fatal(err)
				}
			}

			opens := false
			for _, request := range closedRequests {
				// Without a module that can be loaded it exits with an error.
				out, _ := judge.Try(t, "modprobe", "-C", dir, "-d", tree,
					"-S", filepath.Base(kernels[0]), "-q", "--show-depends", request)
				opens = opens || strings.Contains(out, "insmod ") || strings.Contains(out, "install ")
			}
			if opens != tt.opens {
				t.Errorf("modprobe opens: %t, want %t", opens, tt.opens)
			}
		})
	}
}

// TestAPatternThatCannotBeReadIsRefused: modprobe may read more than Loam does.
func TestAPatternThatCannotBeReadIsRefused(t *testing.T) {
	for _, pattern := range []string{"[]o]ff", "[o-]ff", "[off"} {
		err := mergeText(fileOf("/etc/modprobe.d/x.conf", "install "+pattern+" /sbin/modprobe vsock"),
			osc.Env{})
		if accepts(err) || !strings.Contains(err.Error(), "kernel.modules of machine.yaml") {
			t.Errorf("%s: %v", pattern, err)
		}
	}
}

// escape writes a text within the double quotes of YAML.
func escape(text string) string {
	return strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\t", `\t`).Replace(text)
}

// TestModprobeReadsNothingUnchecked: content that is elsewhere would be read
// without a check.
func TestModprobeReadsNothingUnchecked(t *testing.T) {
	for _, content := range []string{
		"{secretRef: {name: a, dataKey: b}}", "{imageRef: {image: 'a.b/c:1', filePathInImage: /x}}",
	} {
		err := mergeText(head+"  files:\n  - path: /etc/modprobe.d/x.conf\n    content: "+content+"\n",
			osc.Env{})
		if err == nil || accepts(err) ||
			!strings.Contains(err.Error(), "what modprobe reads must be in the document") {
			t.Errorf("%s: %v", content, err)
		}
	}
}
