package rootfs

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

// TestTheJournalLeavesRoom: logs are bounded, and take none of the last room of the
// state partition (journald.conf(5)), of which the agent needs its share.
func TestTheJournalLeavesRoom(t *testing.T) {
	text, err := os.ReadFile("../../mkosi/mkosi.extra/usr/lib/systemd/journald.conf.d/loam.conf")
	if err != nil {
		t.Fatal(err)
	}

	mebibytes := map[string]int{}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		number, isMebibytes := strings.CutSuffix(value, "M")
		if n, err := strconv.Atoi(number); err == nil && isMebibytes {
			mebibytes[name] = n
		}
	}
	// The agent makes its 16 MiB only if eight times as much is free.
	if free := mebibytes["SystemKeepFree"]; free < 8*16 {
		t.Errorf("the journal leaves %d MiB free", free)
	}
	if use := mebibytes["SystemMaxUse"]; use == 0 || use > 256 {
		t.Errorf("the journal takes up to %d MiB", use)
	}
}
