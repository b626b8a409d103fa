package unit

import (
	"testing"
	"testing/synctest"

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

func TestAUnitThatIsAnnouncedHasChanged(t *testing.T) {
	for _, name := range []string{"UnitNew", "UnitRemoved"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := Systemd{signals: newSignals()}
				changed, err := s.Changes(t.Context())
				if err != nil {
					t.Fatal(err)
				}

				const object = dbus.ObjectPath(unitsPath + "/a_2eservice")
				s.signals.known[object] = State{Active: "inactive"}
				s.signals.DeliverSignal(manager, name,
					&dbus.Signal{Path: rootPath, Body: []any{"a.service", object}})
				synctest.Wait()

				select {
				case unit := <-changed:
					if unit != "a.service" {
						t.Errorf("%s has changed", unit)
					}
				default:
					t.Error("nothing has changed")
				}
				if _, ok := s.signals.recall(object); ok {
					t.Error("its state before is remembered")
				}
			})
		})
	}
}
