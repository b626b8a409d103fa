package docs

import (
	"regexp"
	"strings"
	"testing"
)

// target is a target of the Makefile that help lists.
var target = regexp.MustCompile(`(?m)^([a-z-]+):.*## (.*)$`)

func TestEveryTargetSaysHowLongItTakes(t *testing.T) {
	takes := regexp.MustCompile(`\([^()]*(second|minute|hour|night|once)s?\b[^()]*\)$`)
	for _, match := range target.FindAllStringSubmatch(read(t, "../../Makefile"), -1) {
		if !takes.MatchString(match[2]) {
			t.Errorf("make %s: %q does not end with a time in parentheses", match[1], match[2])
		}
	}
}

func TestTargetsInTheDocumentationExist(t *testing.T) {
	known := map[string]bool{}
	for _, match := range target.FindAllStringSubmatch(read(t, "../../Makefile"), -1) {
		known[match[1]] = true
	}

	mentioned := regexp.MustCompile("(?m)(?:^|`)make ([a-z-]+)")
	for _, page := range allPages(t) {
		for _, match := range mentioned.FindAllStringSubmatch(page.Text, -1) {
			if !known[strings.TrimSpace(match[1])] {
				t.Errorf("%s: there is no make %s", page.Path, match[1])
			}
		}
	}
}
