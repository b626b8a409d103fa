package local

import (
	"encoding/json"
	"strings"
	"testing"
	"text/template"

	"github.com/loam-os/loam/agent/plane"
)

// TestPodNetwork fills in the template as containerd does.
func TestPodNetwork(t *testing.T) {
	var text strings.Builder
	err := template.Must(template.New("").Parse(podNetwork())).Execute(&text, map[string]any{
		"PodCIDRRanges": []string{"10.244.0.0/24", "fd00:1::/64"},
		"Routes":        []string{"0.0.0.0/0", "::/0"},
	})
	if err != nil {
		t.Fatal(err)
	}

	var network struct {
		Plugins []struct {
			IPAM struct {
				Ranges [][]struct{ Subnet string }
				Routes []struct{ Dst string }
			}
		}
	}
	if err := json.Unmarshal([]byte(text.String()), &network); err != nil {
		t.Fatalf("%v:\n%s", err, text.String())
	}
	ipam := network.Plugins[0].IPAM
	if len(ipam.Ranges) != 2 || ipam.Ranges[1][0].Subnet != "fd00:1::/64" ||
		len(ipam.Routes) != 2 || ipam.Routes[1].Dst != "::/0" {
		t.Errorf("network %+v", network)
	}
}

func TestANetworkOfTheOperator(t *testing.T) {
	n := newNode(t, plane.Settings{Network: plane.NetworkNone}, "192.0.2.10")
	d, err := n.decode(t)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(textOf(t, d, "/etc/containerd/config.toml"), "template") ||
		textOf(t, d, cniTemplate) != "" {
		t.Error("the node makes a network")
	}
}
