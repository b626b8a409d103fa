package container

import (
	_ "embed"
	"os"
	"path/filepath"
	"testing"
)

//go:embed wire.sh
var wireScript string

// Wire gives the container a NIC, wire0, whose wire ends at port, a port of a switch in
// a network of its own, Peer: there another networkd of the same tree has the
// interface peer, and is configured by router (systemd.network(5)). The container's networkd is
// stopped, with what would start it.
func (c *Container) Wire(t *testing.T, router string) {
	t.Helper()
	err := os.WriteFile(filepath.Join(c.Root, "srv/peer.network"), []byte(router), 0o644)
	if err != nil {
		t.Fatal(err)
	}
	if out := c.Command(t, "sh", "-c", wireScript); out != "" {
		t.Fatalf("%s\n%s", out, c.Command(t, "journalctl", "--no-pager", "-u", "outside"))
	}
}

// Network is the network of the container, as setns(2) takes it.
func (c *Container) Network() string { return filepath.Join(filepath.Dir(c.Root), "ns/net") }

// Peer is the network at the other end of the wire, as setns(2) takes it.
func (c *Container) Peer() string { return filepath.Join(c.Root, "run/netns/outside") }
