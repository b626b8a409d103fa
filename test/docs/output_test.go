package docs

import (
	"reflect"
	"strings"
	"testing"

	"github.com/loam-os/loam/agent/control"
	nodeshow "github.com/loam-os/loam/agent/show"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/cmd/loamctl/rollout"
	"github.com/loam-os/loam/cmd/loamctl/show"
	"github.com/loam-os/loam/cmd/version"
	"github.com/loam-os/loam/image/inspect"
)

const outputIntro = "What the commands of `loam` and `loamctl` print with `-o json`. A field keeps " +
	"its name and its meaning; later versions may add fields. A field without a value may be " +
	"absent. Times are as in RFC 3339, in UTC. Durations are text such as `1m30s`; sizes are in " +
	"bytes. An error is an object, too, on standard error: [errors](errors.md)."

// outputs are the types that commands print, with the packages that have their
// comments: of two types of one name, the later package counts.
var outputs = []struct {
	commands, intro string
	// of is nil for what others have defined.
	of       reflect.Type
	packages []string
}{
	{
		"loam status",
		"The agent writes the same to `/run/loam/status.json` whenever something changes.",
		reflect.TypeFor[status.Status](),
		[]string{"agent/config", "agent/status"},
	},
	{"loam why", "", reflect.TypeFor[nodeshow.Why](), []string{"agent/show"}},
	{"loam history", "", reflect.TypeFor[nodeshow.History](), []string{"agent/apply", "agent/show"}},
	{"loam diff", "", reflect.TypeFor[nodeshow.Difference](), []string{"agent/plan", "agent/show"}},
	{"loam plan", "", reflect.TypeFor[nodeshow.Preview](), []string{"agent/show", "agent/plan"}},
	{"loam disks", "", reflect.TypeFor[nodeshow.Disks](), []string{"agent/show"}},
	{"loam cluster status", "", reflect.TypeFor[nodeshow.OwnCluster](), []string{"agent/show"}},
	{
		"loam cluster set", "With `--plan`, it prints what `loam plan` does.",
		reflect.TypeFor[nodeshow.ChangedRecord](),
		[]string{"agent/show"},
	},
	{
		"loam logs",
		"Not one object but one for each entry, on a line of its own, as `journalctl --output=json` " +
			"prints it: `MESSAGE`, `PRIORITY`, `_SYSTEMD_UNIT` and all other fields of " +
			"systemd.journal-fields(7). `__REALTIME_TIMESTAMP` is in microseconds since 1970. A value " +
			"that is not UTF-8 is a list of its bytes, and a field with several values a list of these.",
		nil,
		nil,
	},
	{
		"loam clock", "With `--from-hardware`, the times after it.",
		reflect.TypeFor[nodeshow.Clock](),
		[]string{"agent/status", "agent/show"},
	},
	{
		"loam apply",
		"`loam confirm`, `loam rollback`, `loam restart`, `loam upgrade`, `loam drill` and `loam " +
			"reset` print the same. `loam apply --dry-run` prints what `loam plan` does. A change that was taken back is " +
			"an error, with the code `taken-back`.",
		reflect.TypeFor[control.Outcome](),
		[]string{"agent/control"},
	},
	{"loam verify", "", reflect.TypeFor[control.VerifyReport](), []string{"agent/control"}},
	{
		"loam version", "`loamctl version` prints the same.",
		reflect.TypeFor[version.Version](),
		[]string{"cmd/version"},
	},
	{
		"loamctl verify", "", reflect.TypeFor[show.Build](),
		[]string{"image/manifest", "image/osv", "cmd/loamctl/show"},
	},
	{
		"loamctl inspect", "", reflect.TypeFor[inspect.Image](),
		[]string{"image/manifest", "image/inspect"},
	},
	{
		"loamctl inspect of two images", "", reflect.TypeFor[inspect.Comparison](),
		[]string{"image/inspect"},
	},
	{
		"loamctl osc validate",
		"A list, with these fields for each file or directory. `loamctl machine validate` and " +
			"`loamctl rollout policy` print the same.",
		reflect.TypeFor[show.Verdict](),
		[]string{"cmd/loamctl/show"},
	},
	{
		"loamctl machine check", "", reflect.TypeFor[show.SignedMachine](),
		[]string{"cmd/loamctl/show"},
	},
	{
		"loamctl waves", "A list, with these fields for each architecture of the release.",
		reflect.TypeFor[show.Waves](),
		[]string{"cmd/loamctl/show", "image/repository"},
	},
	{
		"loamctl osc publish", "", reflect.TypeFor[show.Published](),
		[]string{"cmd/loamctl/show"},
	},
	{
		"loamctl rollout status",
		"`loamctl rollout now`, `loamctl rollout pause`, `loamctl rollout resume`, " +
			"`loamctl rollout retry` and `loamctl rollout forget` print the same.",
		reflect.TypeFor[rollout.Report](),
		[]string{"agent/turns", "cmd/loamctl/rollout"},
	},
	{
		"loamctl rollout plan", "", reflect.TypeFor[rollout.Plan](),
		[]string{"cmd/loamctl/rollout"},
	},
}

// TestOutputPageHasEveryField fails, without LOAM_DOCS, when a field of an output is
// renamed or goes: programs depend on it.
func TestOutputPageHasEveryField(t *testing.T) {
	var page strings.Builder
	page.WriteString(generated("Output for programs",
		"packages agent/status, agent/show, agent/control, cmd/loamctl/show, "+
			"cmd/loamctl/rollout, cmd/version and image/inspect"))
	page.WriteString(outputIntro + "\n")
	for _, output := range outputs {
		page.WriteString("\n## " + output.commands + "\n\n")
		if output.intro != "" {
			page.WriteString(output.intro + "\n")
		}
		if output.of == nil {
			continue
		}
		if output.intro != "" {
			page.WriteString("\n")
		}

		var dirs []string
		for _, name := range output.packages {
			dirs = append(dirs, "../../"+name)
		}
		fields, err := Fields(output.of, dirs...)
		if err != nil {
			t.Fatal(err)
		}

		page.WriteString(Table(fields))
		for _, f := range fields {
			if f.Text == "" {
				t.Errorf("%s: %s has no comment in the code", output.commands, f.Path)
			}
		}
	}
	Golden(t, "../..", "docs/reference/output.md", page.String())
}
