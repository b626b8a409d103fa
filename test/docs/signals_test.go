package docs

import (
	"slices"
	"testing"
)

func TestSignalsPageHasEveryMetricEventAndCondition(t *testing.T) {
	p, err := loaded()
	if err != nil {
		t.Fatal(err)
	}
	signals := p.Signals()
	Golden(t, "../..", "docs/reference/metrics.md", SignalsPage(signals))

	// The page must have the reasons that tests of the agent expect.
	for _, reason := range []string{
		"NoSSHAccess", "UnitNotWell", "FileMismatch", "SystemDUnitStart", "OSCInvalid",
		"OSCHeld", "AllUnitsHealthy",
	} {
		if !slices.ContainsFunc(signals, func(s Signal) bool { return s.Reason == reason }) {
			t.Errorf("no Event or condition with reason %s", reason)
		}
	}
}
