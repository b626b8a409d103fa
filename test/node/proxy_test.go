package node

import (
	"encoding/base64"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/hint/fault"
	testcluster "github.com/loam-os/loam/test/cluster"
	"github.com/loam-os/loam/test/judge"
)

// TestPullsThroughAProxy has a node on a network without names, and with nothing but
// a proxy that leads out of it. Its first configuration brings an image of a
// registry and the authority that the registry's certificate is of.
func TestPullsThroughAProxy(t *testing.T) {
	judge.Long(t, "TestTheFirstConfigurationBringsItsRegistry of agent/decode, and agent/proxy")
	parallel(t, 2*time.Minute)
	b := open(t)
	const host = "registry.default"
	registry := testcluster.StartRegistry(t, testcluster.RegistryOptions{TLS: true})
	digest := registry.Push(t, "a/tool:v1", testcluster.Image{
		Arch: b.manifest.Arch,
		Layers: []testcluster.Layer{
			{"bin/tool": {Content: []byte("from the image"), Mode: 0o755}},
		},
	})
	proxy := startProxy(t, "loam:secret", map[string]string{host + ":443": registry.Address()})

	m := b.flash(t, b.file(".raw"))
	m.config.Host = true
	n := m.on(t, map[string]string{
		"loam.machine": machineYAML(b.manifest.Arch, fmt.Sprintf(
			"source: {credential: {name: loam.config}}\nproxy: {url: 'http://loam:secret@10.0.2.2:%s'}\n",
			proxy.port)),
		"loam.config": `apiVersion: extensions.gardener.cloud/v1alpha1
kind: OperatingSystemConfig
spec:
  criConfig:
    name: containerd
    containerd:
      sandboxImage: ` + host + `/pause:3.10
      registries: [{upstream: ` + host + `, server: "https://` + host + `"}]
  units:
  - name: containerd.service
  files:
  - path: /opt/bin/tool
    permissions: 0755
    content: {imageRef: {image: "` + host + "/a/tool@" + digest + `", filePathInImage: /bin/tool}}
  - path: /var/lib/ca-certificates-local/registry-ca.crt
    content: {inline: {encoding: b64, data: ` +
			base64.StdEncoding.EncodeToString([]byte(registry.CA())) + `}}
`,
	})
	n.applied()
	n.shell()
	n.want("cat /opt/bin/tool", "from the image")
	n.want("journalctl -b --no-pager | grep -c 'loam:secret' || :", "0")
	if asked := proxy.asked(); asked[host+":443"] == 0 {
		t.Errorf("the proxy was asked for %v, want the registry", asked)
	}
	n.off()
}

// proxy is an HTTP proxy on this host's loopback.
type proxy struct {
	port string
	mu   sync.Mutex
	all  map[string]int // how often it was asked for each host and port
}

// asked returns how often it was asked for each host and port.
func (p *proxy) asked() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.all)
}

// startProxy starts a proxy that wants a user and a password, and leads to some
// hosts only.
func startProxy(t *testing.T, login string, leads map[string]string) *proxy {
	t.Helper()
	p := &proxy{all: map[string]int{}}
	wanted := "Basic " + base64.StdEncoding.EncodeToString([]byte(login))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		p.all[r.Host]++
		p.mu.Unlock()
		to, known := leads[r.Host]
		switch {
		case r.Header.Get("Proxy-Authorization") != wanted:
			w.WriteHeader(http.StatusProxyAuthRequired)
		case r.Method != http.MethodConnect || !known:
			w.WriteHeader(http.StatusForbidden)
		default:
			join(w, to)
		}
	}))
	t.Cleanup(server.Close)
	where, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	p.port = where.Port()
	return p
}

// join connects whoever asked to an address, until both have said all.
func join(w http.ResponseWriter, to string) {
	far, err := net.Dial("tcp", to)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	defer far.Close()
	near, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer near.Close()

	if _, err := io.WriteString(near, "HTTP/1.1 200 OK\r\n\r\n"); err != nil {
		return
	}
	go func() {
		_, _ = io.Copy(far, buffered)
		_ = far.(*net.TCPConn).CloseWrite()
	}()
	_, _ = io.Copy(near, far)
}

// TestAStartIn2038 starts a machine for the first time at a clock that is beyond
// what 32 bits hold, and then at the right one.
func TestAStartIn2038(t *testing.T) {
	judge.Long(t, "TestDoubtAndReset of agent/clock/rtc, and agent/clock")
	parallel(t, 5*time.Minute)
	b := open(t)
	m := b.flash(t, b.file(".raw"))
	given := map[string]string{
		"loam.machine": machineYAML(b.manifest.Arch, "source: {credential: {name: loam.config}}\n"),
		"loam.config":  string(readFile(t, "../../examples/hello.yaml")),
	}

	m.config.Clock = "2038-02-01"
	n := m.on(t, given)
	n.applied()
	n.shell()
	n.want("date +%Y; stat -c %y /var/lib/loam | cut -c1-4; systemctl is-active hello.service",
		"2038\n2038\nactive")
	n.want("systemctl --failed --no-legend | wc -l", "0")

	// The node has recorded the time once, as it does each minute.
	n.sh("until test $(date -r /var/lib/systemd/timesync/clock +%Y) = 2038; do sleep 1; done")
	n.off()

	m.config.Clock = ""
	n = m.on(t, given)
	n.applied()
	n.shell()
	n.want("date +%Y; systemctl is-active hello.service", "2038\nactive")
	n.says(func(s status.Status) bool { return s.Clock != nil && s.Clock.Code == fault.ClockDoubtful })
	n.sh("loam clock --from-hardware")
	year := strconv.Itoa(time.Now().UTC().Year())
	n.want("date +%Y", year)
	n.says(func(s status.Status) bool { return s.Clock == nil })
	n.off()

	n = m.on(t, given)
	n.applied()
	n.shell()
	n.want("date +%Y", year)
	n.off()
}
