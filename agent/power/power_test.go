package power

import (
	"strings"
	"testing"
	"testing/fstest"
)

// supplies returns a sysfs with supplies, each given as "name attribute=value
// attribute=value".
func supplies(all ...string) fstest.MapFS {
	sys := fstest.MapFS{}
	for _, s := range all {
		fields := strings.Fields(s)
		for _, f := range fields[1:] {
			attribute, value, _ := strings.Cut(f, "=")
			sys[dir+"/"+fields[0]+"/"+attribute] = &fstest.MapFile{Data: []byte(value + "\n")}
		}
	}
	return sys
}

func TestObserve(t *testing.T) {
	for _, tc := range []struct {
		name string
		sys  fstest.MapFS
		want State
	}{
		{"a machine without power supplies", fstest.MapFS{}, State{}},
		{"a server whose supply says that it is off", supplies("AC type=Mains online=0"), State{}},
		{
			"a mouse",
			supplies("hid type=Battery scope=Device status=Discharging capacity=5"),
			State{},
		},
		{
			"a laptop without its battery",
			supplies("AC type=Mains online=0", "BAT0 type=Battery present=0"),
			State{},
		},
		{
			"a laptop on mains",
			supplies("AC type=Mains online=1", "BAT0 type=Battery status=Charging capacity=12"),
			State{false, 12},
		},
		{
			"a laptop on battery",
			supplies("AC type=Mains online=0", "BAT0 type=Battery status=Discharging capacity=80"),
			State{true, 80},
		},
		{
			"one of two batteries",
			supplies("AC type=Mains online=0", "BAT0 type=Battery status=Discharging capacity=7",
				"BAT1 type=Battery status=Unknown capacity=60"),
			State{true, 60},
		},
		{
			"a battery alone that is used",
			supplies("BAT0 type=Battery scope=System status=Discharging capacity=29"),
			State{true, 29},
		},
		{
			"a battery alone that is charged",
			supplies("BAT0 type=Battery status=Charging capacity=29"),
			State{false, 29},
		},
		{
			"power by USB",
			supplies("usb type=USB online=1", "BAT0 type=Battery status=Discharging capacity=5"),
			State{false, 5},
		},
		{
			"a battery that does not tell",
			supplies("AC type=Mains online=0", "BAT0 type=Battery status=Unknown"),
			State{true, -1},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got, err := Observe(tc.sys); err != nil || got != tc.want {
				t.Errorf("%+v, %v, want %+v", got, err, tc.want)
			}
		})
	}
}
