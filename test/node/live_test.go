package node

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/image/pxe"
	"github.com/loam-os/loam/test/judge"
)

// origin is a server of systems that run from memory.
type origin struct {
	*httptest.Server
	machine string

	// cut is after how many bytes the first answer that has as many ends; 0 is
	// never.
	cut atomic.Int64

	// installed has the queries of the nodes that said so.
	installed chan string
}

func (b build) origin(t *testing.T, machine string) *origin {
	p := &origin{machine: machine, installed: make(chan string, 10)}
	mux := http.NewServeMux()
	for name, suffix := range map[string]string{
		"root":         ".root",
		"verity":       ".verity",
		"disk.raw.zst": ".raw.zst",
	} {
		mux.HandleFunc(
			"GET /v1/boot/"+b.manifest.RootHash+"/"+name,
			func(w http.ResponseWriter, r *http.Request) {
				http.ServeFile(&cutter{w, p}, r, b.file(suffix))
			},
		)
	}

	mux.HandleFunc("GET /v1/machine", ofMachines(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if q.Get("mac") != "52:54:00:12:34:56" || q.Get("arch") != b.manifest.Arch ||
			p.machine == "" {
			http.NotFound(w, r)
			return
		}
		fmt.Fprint(w, p.machine)
	}))

	mux.HandleFunc("POST /v1/installed", ofMachines(func(_ http.ResponseWriter, r *http.Request) {
		p.installed <- r.URL.RawQuery
	}))

	p.Server = httptest.NewServer(mux)
	t.Cleanup(p.Close)
	return p
}

// ofMachines answers machines only, as `loamctl serve` does.
func ofMachines(answer http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(pxe.ClientHeader) != "true" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		answer(w, r)
	}
}

// cutter breaks a connection.
type cutter struct {
	http.ResponseWriter
	p *origin
}

func (c *cutter) Write(b []byte) (int, error) {
	if left := c.p.cut.Load(); left > 0 && c.p.cut.Add(-int64(len(b))) <= 0 {
		panic(http.ErrAbortHandler)
	}
	return c.ResponseWriter.Write(b)
}

// url is what a machine calls it.
func (p *origin) url() string { return strings.Replace(p.URL, "127.0.0.1", "10.0.2.2", 1) }

// diskless is a machine that starts kernel and initramfs of the PXE set by
// DHCP, without firmware; p may be nil.
func (b build) diskless(t *testing.T, p *origin) *machine {
	m := b.flash(t, b.file(".raw"))
	m.config.Disk = ""
	m.config.FirmwareCode = ""
	m.config.Kernel = b.file(
		".vmlinuz",
	)

	m.config.Initrd = b.file(".initrd")
	m.config.Cmdline = b.manifest.LiveCmdline

	if p != nil {
		m.config.Host = true
		m.config.BootFile = p.url()
	}

	return m
}

// TestPXEToMemory: a node without a disk gets its system over a network that
// breaks, and applies.
func TestPXEToMemory(t *testing.T) {
	judge.Long(t, "TestUSBInstaller, whose installer runs from memory, too")
	parallel(t, 3*time.Minute)
	b := open(t)
	p := b.origin(t, machineYAML(b.manifest.Arch, "source: {credential: {name: loam.config}}\n"))
	p.cut.Store(40 << 20)
	m := b.diskless(t, p)
	m.config.MemoryMB = liveMemory

	if size, err := strconv.Atoi(os.Getenv("LOAM_MEMORY")); err == nil { // to measure what it needs
		m.config.MemoryMB = size
	}

	n := m.on(t, map[string]string{"loam.config": string(readFile(t, "../../examples/hello.yaml"))})
	n.expect(regexp.MustCompile(`the server is http://10\.0\.2\.2`))
	n.expect(regexp.MustCompile(`retrying`))
	generation := n.applied()
	n.shell()

	s := n.status()
	if s.Generation != generation || s.Slot != "memory" || s.RootHash != b.manifest.RootHash ||
		s.Phase != status.Applied || s.Machine != "/run/loam/machine.yaml" {
		t.Errorf("status %+v", s)
	}

	n.want("findmnt -no FSTYPE /; findmnt -no FSTYPE /var", "erofs\ntmpfs")
	n.want("stat -c %a /run/loam/machine.yaml /run/loam/memory", "600\n700")
	n.want("systemctl is-active hello.service systemd-networkd", "active\nactive")
	n.want("systemctl --failed --no-legend | wc -l", "0")
	available, _ := strconv.Atoi(
		n.sh("sed -n 's/^MemAvailable: *\\([0-9]*\\) kB/\\1/p' /proc/meminfo"),
	)

	t.Logf("memory: %d MiB, of which %d MiB are available", m.config.MemoryMB, available>>10)
	n.off()
}

// TestNetworkCards gets the system over each network card that QEMU has a model
// of, besides virtio's.
func TestNetworkCards(t *testing.T) {
	onlyInPlaces(t)
	b := open(t)
	p := b.origin(t, machineYAML(b.manifest.Arch, "source: {credential: {name: loam.config}}\n"))
	for _, card := range []struct {
		module   string
		notCloud bool
	}{
		{module: "vmxnet3"},
		{module: "e1000", notCloud: true},
		{module: "e1000e", notCloud: true},
		{module: "igb", notCloud: true},
	} {
		t.Run(card.module, func(t *testing.T) {
			parallel(t, 2*time.Minute)
			if card.notCloud && b.manifest.Profile == "cloud" {
				t.Skip("the cloud kernel has no driver")
			}

			m := b.diskless(t, p)
			m.config.NIC = card.module
			n := m.on(t,
				map[string]string{"loam.config": string(readFile(t, "../../examples/hello.yaml"))})
			n.applied()
			n.shell()
			n.sh("ls -d /sys/bus/pci/drivers/" + card.module + "/*/net/*")
			n.want("networkctl list --no-legend | grep -c routable; "+
				"systemctl --failed --no-legend | wc -l", "1\n0")
			n.off()
		})
	}
}

// TestPXEToMemoryWithIPv6Only: a router gives the address, and the kernel's
// command line the server, as the script of iPXE does.
func TestPXEToMemoryWithIPv6Only(t *testing.T) {
	matrix(t)
	b := open(t)

	l, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Fatal(err)
	}

	l.Close()
	s := serving(t, "--listen", l.Addr().String(), "--boot", b.dir, "--machines",
		inventory(t, machineYAML(b.manifest.Arch, "source: {credential: {name: loam.config}}\n")))
	m := b.diskless(t, nil)
	m.config.Netdev = "user,id=net,ipv4=off,ipv6=on"

	// as QEMU calls this host
	m.config.Cmdline += " loam.server=" + strings.Replace("http://"+l.Addr().String(),
		"[::1]", "[fec0::2]", 1)
	n := m.on(t, map[string]string{"loam.config": string(readFile(t, "../../examples/hello.yaml"))})
	n.expect(regexp.MustCompile(`has address fec0:[0-9a-f:]+/64; the server is http://\[fec0::2\]`))
	s.says(t, "asks for its machine.yaml.*: "+machineMAC+".yaml$")
	s.says(t, "loads root by HTTP: [1-9]")
	n.applied()
	n.shell()
	n.want("ip -br -4 address show scope global; systemctl is-active systemd-networkd; "+
		"systemctl --failed --no-legend | wc -l", "active\n0")
	n.off()
}

// liveMemory is what a node that runs from memory has to do with, in MiB.
const liveMemory = 1024
