package watch

import (
	"errors"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/network"
	"github.com/loam-os/loam/agent/networkd"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/agent/unit"
	"github.com/loam-os/loam/test/units"
)

// systemd returns a systemd with networkd in one state, "" for none that answers.
func systemd(active string) *units.Fake {
	fake := &units.Fake{}
	if active == "" {
		fake.Broken = errors.New("no systemd")
	}
	fake.Set(networkd.Unit, unit.State{Active: active})
	return fake
}

// outcome is what Apply has come to.
type outcome struct {
	InForce, Recorded network.Files
	From              status.NetworkSource
	Next, Unread      bool
	Failed            bool
}

func TestApply(t *testing.T) {
	config := network.Config{Interfaces: []network.Interface{{
		Name:  "lan",
		NIC:   &network.NIC{Name: "eth0"},
		DHCP4: true,
	}}}
	files := network.Render(config)
	other := network.Files{"10-other.network": "[Match]\nName=eth1\n"}

	for _, tt := range []struct {
		name              string
		inForce, recorded network.Files
		want              *network.Config
		// networkd is its state, empty if systemd does not answer.
		networkd string
		fresh    bool
		outcome  outcome
	}{
		{
			name:     "a node without a network of its own has the image's",
			networkd: "inactive",
			outcome:  outcome{From: status.NetworkOfImage},
		},
		{
			name:     "at boot, networkd gets the network of machine.yaml",
			want:     &config,
			networkd: "inactive",
			outcome:  outcome{InForce: files, Recorded: files, From: status.NetworkOfMachine},
		},
		{
			name:     "at boot without machine.yaml, networkd gets the recorded network",
			recorded: other,
			networkd: "inactive",
			outcome:  outcome{InForce: other, Recorded: other, From: status.NetworkKept},
		},
		{
			name:     "a network that is in force is not observed any further",
			inForce:  files,
			recorded: files,
			want:     &config,
			outcome:  outcome{InForce: files, Recorded: files, From: status.NetworkOfMachine},
		},
		{
			name:     "a running networkd keeps its network until the next boot",
			inForce:  other,
			recorded: other,
			want:     &config,
			networkd: "active",
			fresh:    true,
			outcome: outcome{
				InForce:  other,
				Recorded: files,
				From:     status.NetworkKept,
				Next:     true,
			},
		},
		{
			name:     "a running networkd of a configured node keeps the image's network",
			want:     &config,
			networkd: "active",
			outcome:  outcome{Recorded: files, From: status.NetworkOfImage, Next: true},
		},
		{
			name:     "a running networkd of a fresh node gets the network, and is to be restarted",
			want:     &config,
			networkd: "active",
			fresh:    true,
			outcome: outcome{
				InForce:  files,
				Recorded: files,
				From:     status.NetworkOfMachine,
				Unread:   true,
			},
		},
		{
			name:    "without systemd the network is recorded, and not in force",
			want:    &config,
			outcome: outcome{Recorded: files, From: status.NetworkOfMachine, Failed: true},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root, err := os.OpenRoot(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			defer root.Close()
			node := durable.New(root, nil)

			err = errors.Join(networkd.Put(node, tt.inForce), networkd.Keep(node, tt.recorded))
			if err != nil {
				t.Fatal(err)
			}

			n := New(root, systemd(tt.networkd))
			applyErr := n.Apply(t.Context(), node, tt.want, tt.fresh)

			inForce, inForceErr := networkd.InForce(root)
			recorded, recordedErr := networkd.Kept(root)
			if err := errors.Join(inForceErr, recordedErr); err != nil {
				t.Fatal(err)
			}
			got := outcome{
				InForce:  inForce,
				Recorded: recorded,
				From:     n.from,
				Next:     n.next,
				Unread:   networkd.Unread(root),
				Failed:   applyErr != nil,
			}
			if diff := cmp.Diff(tt.outcome, got); diff != "" {
				t.Errorf("Apply: %v (-want +got):\n%s", applyErr, diff)
			}
		})
	}
}

func TestObserveNotifiesOnce(t *testing.T) {
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	n := New(root, systemd(""))
	if n.State() != nil {
		t.Error("there is a state before the first observation")
	}

	n.Observe()
	n.Observe()
	if n.State() == nil {
		t.Error("there is no state after an observation")
	}
	<-n.Changed()
	select {
	case <-n.Changed():
		t.Error("notified twice of one state")
	default:
	}
}
