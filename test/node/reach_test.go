package node

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/test/cluster/testcluster"
	"github.com/loam-os/loam/test/judge"
)

// door is a port of this host behind which there is one thing or another.
type door struct {
	t    *testing.T
	port int

	mu    sync.Mutex
	close func()
}

// newDoor returns a door that is shut.
func newDoor(t *testing.T) *door {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &door{t: t, port: l.Addr().(*net.TCPAddr).Port}
	l.Close()
	t.Cleanup(d.shut)
	return d
}

// shut ends what is behind the door.
func (d *door) shut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.close != nil {
		d.close()
		d.close = nil
	}
}

// open returns the listener of what is now behind the door.
func (d *door) open() net.Listener {
	d.t.Helper()
	d.shut()
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", d.port))
	if err != nil {
		d.t.Fatal(err)
	}
	return l
}

// serve puts an HTTP server behind the door, which begin starts.
func (d *door) serve(begin func(*httptest.Server)) {
	d.t.Helper()
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.Listener.Close()
	server.Listener = d.open()
	begin(server)
	d.close = server.Close
}

// lead puts what listens at an address behind the door; "" for somebody who takes
// connections and says nothing.
func (d *door) lead(to string) {
	d.t.Helper()
	l := d.open()
	ctx, cancel := context.WithCancel(d.t.Context())
	d.close = func() {
		cancel()
		l.Close()
	}

	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			context.AfterFunc(ctx, func() { from.Close() })
			if to == "" {
				continue
			}

			other, err := net.Dial("tcp", to)
			if err != nil {
				from.Close()
				continue
			}
			context.AfterFunc(ctx, func() { other.Close() })
			for _, pair := range [][2]net.Conn{{from, other}, {other, from}} {
				go func() {
					_, _ = io.Copy(pair[0], pair[1])
					pair[0].Close()
				}()
			}
		}
	}()
}

// TestANodeSaysWhyItHasNotJoined breaks what is between a node and its cluster,
// one thing after another. Somebody who has nothing but the log of the serial
// line finds there what it is, and with it what was tried.
func TestANodeSaysWhyItHasNotJoined(t *testing.T) {
	judge.Long(t, "TestExplain of agent/cluster/reach")
	parallel(t, 5*time.Minute)
	b := open(t)
	w := newClusterTest(t, b.manifest.Arch)
	m := b.flash(t, b.file(".raw"))
	if err := w.Connect(&m.config); err != nil {
		t.Fatal(err)
	}

	// The hypervisor has a log of its own, beside that of the serial line.
	hypervisor := m.file("hypervisor.log", "")
	m.arguments("-chardev", "file,id=hypervisor,path="+hypervisor,
		"-device", "virtio-serial-pci", "-device", "virtconsole,chardev=hypervisor")

	d := newDoor(t)
	const name = "kubernetes.default" // It is in the certificate of the API server.
	api, err := url.Parse(w.URL())
	if err != nil {
		t.Fatal(err)
	}
	server := fmt.Sprintf("https://%s:%d", name, d.port)
	token := w.BootstrapToken(t)
	n := m.on(t, map[string]string{"loam.machine": w.MachineAt(server, token)})
	n.shell()

	hosts := func(address string) {
		n.sh(fmt.Sprintf("printf '127.0.0.1 localhost\\n%s %s\\n' >/run/hosts", address, name))
	}
	n.sh("cp /etc/hosts /run/hosts; mount --bind /run/hosts /etc/hosts")
	const tokenFile = "/var/lib/gardener-node-agent/credentials/bootstrap-token"
	day := fmt.Sprintf("date -s @%d", time.Now().Unix())

	steps := []struct {
		name string
		does func()
		code fault.Code
		text string
	}{
		{
			"nobody knows the name",
			func() {}, // QEMU's name server asks those of this host.
			fault.NameNotFound, `the name server 10\.0\.2\.3 .* of ` + name,
		},
		{
			"no route",
			func() {
				n.sh("ip route add unreachable 203.0.113.7")
				hosts("203.0.113.7")
			},
			fault.NoRoute, `cannot be reached: no route leads there; tried .* at 203\.0\.113\.7:`,
		},
		{
			"nothing listens",
			func() { hosts("10.0.2.2") },
			fault.ServerUnreachable, `refuses the connection: nothing listens there; tried .* at 10\.0\.2\.2:`,
		},
		{
			"no TLS",
			func() { d.serve((*httptest.Server).Start) },
			fault.TLSFailed, "does not speak TLS",
		},
		{
			"another server",
			func() { d.serve((*httptest.Server).StartTLS) },
			fault.CertificateNotTrusted, "is for another name",
		},
		{
			"silence",
			func() { d.lead("") },
			fault.ServerUnreachable, "does not answer",
		},
		{
			"a clock that is behind",
			func() {
				n.sh("date -s @86400")
				d.lead(api.Host)
			},
			fault.ClockDoubtful, "is not yet valid",
		},
		{
			"a token that nobody knows",
			func() { n.sh(day + "; echo abcdef.0123456789abcdef >" + tokenFile) },
			fault.TokenRefused, "the bootstrap token is unknown or has expired",
		},
		{
			"nobody approves",
			func() { n.sh("echo " + token + " >" + tokenFile) },
			fault.ApprovalPending, "is not approved yet",
		},
		{
			"somebody denies",
			func() {
				if err := w.DenyAgent(t.Context()); err != nil {
					t.Fatal(err)
				}
			},
			fault.ApprovalDenied, "the request for a certificate was denied",
		},
		{
			"there is no configuration",
			func() { w.ApproveNodeAgent(t, stepTimeout) },
			fault.ContentMissing, "the cluster has no Secret kube-system/",
		},
		{
			"the agent crashes",
			func() { n.sh("systemctl kill --signal=SEGV loam-agent") },
			fault.AgentEnded, "the node agent has ended: exit status 2",
		},
	}
	for _, step := range steps {
		began := time.Now()
		step.does()
		n.t = t
		line := fmt.Sprintf("^loam %s: %s: .*%s", testcluster.Node, step.code, step.text)
		n.expect(regexp.MustCompile(line))
		t.Logf("%s: %s after %s", step.name, step.code, time.Since(began).Round(time.Second))
	}

	// What it said before is said again, and all of it goes by itself.
	n.expect(regexp.MustCompile("the cluster has no Secret kube-system/"))
	w.publish(20, "", "")
	n.expect(appliedLine)

	said := string(readFile(t, hypervisor))
	for _, step := range steps {
		if !strings.Contains(said, fmt.Sprintf("loam %s: %s: ", testcluster.Node, step.code)) {
			t.Errorf("the hypervisor's log does not say %s", step.code)
		}
	}
}
