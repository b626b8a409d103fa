package turns

import (
	"fmt"
	"strings"
	"testing"
)

func TestAFullLedgerTakesNoTurn(t *testing.T) {
	v := wants()
	v.Policy.MaxUnavailable = Amount{Percent: 100}
	l := *v.Seen.Ledger
	for n := range 2 * MaxHolders() {
		name := fmt.Sprint("other-", n)
		h := holder(name, "x")
		h.Node = strings.Repeat("x", 253)
		l.Holders[name] = h
	}
	want := fmt.Sprintf("the ledger of the pool is full: %d nodes have a turn",
		len(l.Holders)+len(l.Restored))
	if got := Next(v); got.Kind != Await || got.Decision.Why != want {
		t.Errorf("%s %q, want %q", got.Kind, got.Decision.Why, want)
	}

	for n := range 2*MaxHolders() - 10 {
		delete(l.Holders, fmt.Sprint("other-", n))
	}
	if got := Next(v); got.Kind != Save {
		t.Errorf("%s %q", got.Kind, got.Decision.Why)
	}
}

// TestTheLongestTurnFits has all names as long as Kubernetes allows.
func TestTheLongestTurnFits(t *testing.T) {
	label := strings.Repeat("x", 63)
	h := holder(strings.Repeat("x", 253), strings.Repeat("x", 26))
	h.UID = strings.Repeat("x", 36)
	h.Target = strings.Repeat("x", maxTarget)
	h.Version = strings.Repeat("x", maxTarget)
	h.Zone = label
	h.Rack = label
	if n := len(holderPrefix+label) + len(h.String()); n > largestHolder {
		t.Errorf("%d bytes", n)
	}
}
