package enroll

import "testing"

func TestTheRemovalIsForAShell(t *testing.T) {
	marks := []string{
		"/srv/installed/m.yaml/52:54:00:00:00:01",
		"/srv/installed/serial-VM 1's.yaml/52:54:00:00:00:01",
	}
	got := removal(
		marks,
	)
	want :=
		`rm /srv/installed/m.yaml/52:54:00:00:00:01 '/srv/installed/serial-VM 1'\''s.yaml/52:54:00:00:00:01'`
	if got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
