package unit

import (
	"testing"

	"github.com/godbus/dbus/v5"
)

func TestUnitName(t *testing.T) {
	for object, want := range map[dbus.ObjectPath]string{
		"/org/freedesktop/systemd1/unit/ssh_2eservice":               "ssh.service",
		"/org/freedesktop/systemd1/unit/a_40b_5cx2dc_2eservice":      `a@b\x2dc.service`,
		"/org/freedesktop/systemd1/unit/_":                           "_",
		"/org/freedesktop/systemd1/unit/systemd_2djournald_2esocket": "systemd-journald.socket",
	} {
		if got := unitName(object); got != want {
			t.Errorf("%s is %q, want %q", object, got, want)
		}
	}
}
