package agent

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/fleetlock"
	"github.com/loam-os/loam/agent/machine"
	"github.com/loam-os/loam/agent/upgrade"
	"github.com/loam-os/loam/agent/upgrade/records"
	"github.com/loam-os/loam/agent/upgrade/service"
)

// TestUpgradesWaitForASlot has an upgrade that is ready ask the server of
// machine.yaml, as the machine with its ID.
func TestUpgradesWaitForASlot(t *testing.T) {
	one := upgrade.System{Version: "1.0.0", RootHash: "aa"}
	two := upgrade.System{Version: "2.0.0", RootHash: "bb"}
	u := rootWith(t, "1c09ca98649c4c7abc779cd04c96812e\n")
	kept := upgrade.Files{Dir: durable.New(u.root, nil)}
	armed := upgrade.Journal{Phase: upgrade.Armed, From: one, Target: two}
	if err := records.Save(kept, "upgrade.json", armed); err != nil {
		t.Fatal(err)
	}

	asked := make(chan fleetlock.Request, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var body fleetlock.Request
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		if r.URL.Path == fleetlock.LockPath {
			asked <- body
		}
	}))
	defer server.Close()

	var running sync.WaitGroup
	t.Cleanup(running.Wait)
	u.Log = zap.NewNop()
	u.run = running.Go
	u.from.Turns = machine.Turns{FleetLock: server.URL, Group: "line-3"}
	client, err := u.fleetLockClient()
	if err != nil {
		t.Fatal(err)
	}
	s := service.New(&service.Service{
		Upgrader: &upgrade.Upgrader{Records: kept, Boot: upgrade.Boot{Running: one}},
	})
	u.startFleetLock(t.Context(), s, client)

	if s.Turns.Await(two) == "" {
		t.Error("it may restart before it has asked")
	}
	want := fleetlock.Client{ID: "978a225b3d7b40e9acd7ce9b62f68444", Group: "line-3"}
	if got := <-asked; got.Client != want {
		t.Errorf("%+v asks, want %+v", got.Client, want)
	}
	<-s.Turns.Changed()
	if why := s.Turns.Await(two); why != "" {
		t.Errorf("it has its slot, and %s", why)
	}
}

// TestAMachineWithoutAnIDAsksForNoSlot begins no upgrade that others would not know
// of.
func TestAMachineWithoutAnIDAsksForNoSlot(t *testing.T) {
	for _, id := range []string{"", "uninitialized\n"} {
		u := rootWith(t, id)
		u.from.Turns.FleetLock = "http://192.0.2.1:8080"
		if client, err := u.fleetLockClient(); err == nil {
			t.Errorf("with the ID %q, it asks as %+v", id, client)
		}

		u.from.Turns.FleetLock = ""
		if _, err := u.fleetLockClient(); err != nil {
			t.Errorf("without a server: %v", err)
		}
	}
}

// rootWith returns upgrades of a node whose /etc/machine-id has that text; there is
// none if it is "".
func rootWith(t *testing.T, id string) upgrades {
	t.Helper()
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	if err := root.Mkdir("etc", 0o755); err != nil {
		t.Fatal(err)
	}
	if id != "" {
		if err := root.WriteFile("etc/machine-id", []byte(id), 0o444); err != nil {
			t.Fatal(err)
		}
	}
	return upgrades{root: root}
}
