package boot

import (
	"os"
	"strings"
	"testing"
	"testing/fstest"
)

// TestTheIDOfASystemInMemory is the same at each start, and another on each machine.
func TestTheIDOfASystemInMemory(t *testing.T) {
	const uuid = "4C4C4544-0042-3510-8052-B4C04F564231"
	machine := func(uuid, serial string) fstest.MapFS {
		return fstest.MapFS{
			"sys/class/dmi/id/product_uuid":   {Data: []byte(uuid + "\n")},
			"sys/class/dmi/id/product_serial": {Data: []byte(serial + "\n")},
		}
	}

	first := hardwareID(machine(uuid, "1"))
	if !validMachineID(first) || strings.Contains(first, "4c4c4544") {
		t.Errorf("%q is no machine ID, or tells the UUID", first)
	}
	if again := hardwareID(machine(strings.ToLower(uuid), "1")); again != first {
		t.Errorf("%s, then %s", first, again)
	}
	if other := hardwareID(machine(uuid, "2")); other == first {
		t.Error("two machines of one UUID have the same")
	}

	for _, none := range []string{
		"", "Not Settable", "00000000-0000-0000-0000-000000000000",
		"FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF", "03000200-0400-0500-0006-000700080009",
	} {
		id, again := hardwareID(machine(none, "1")), hardwareID(machine(none, "1"))
		if !validMachineID(id) || id == again {
			t.Errorf("UUID %q: %s, then %s", none, id, again)
		}
	}
}

func TestAMachineKeepsItsID(t *testing.T) {
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := root.Mkdir("etc", 0o755); err != nil {
		t.Fatal(err)
	}

	const first = "0123456789abcdef0123456789abcdef"
	for _, id := range []string{first, "another, if it had none"} {
		if err := setMachineID(root, func() string { return id }); err != nil {
			t.Fatal(err)
		}
		for _, file := range []string{"etc/machine-id", machineIDFile} {
			text, err := root.ReadFile(file)
			if err != nil || string(text) != first+"\n" {
				t.Errorf("%s: %q, %v", file, text, err)
			}
		}
	}
}
