package layout

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// system is what reaches the file system without agent/durable, reads what of
// it changes nothing.
var (
	system = regexp.MustCompile(`\b(os|unix|syscall|exec)\.[A-Z]\w*|\bRoot\(\)(\.\w+)?`)
	reads  = regexp.MustCompile(`^(os\.(SameFile|DevNull|Gete[ug]id)|syscall\.(E[A-Z]+|Stat_t)|Root\(\)\.(FS|Lstat|Open|ReadFile))$`)
)

func TestConfigurationIsChangedByDurableOnly(t *testing.T) {
	for _, pattern := range []string{"../../agent/apply/*.go", "../../agent/generation/*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatal(pattern, err)
		}
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(string(text)) {
				code, _, _ := strings.Cut(line, "//")
				for _, use := range system.FindAllString(code, -1) {
					if !strings.HasSuffix(f, "_test.go") && !reads.MatchString(use) {
						t.Errorf("%s uses %s: what changes files is agent/durable", f, use)
					}
				}
			}
		}
	}
}
