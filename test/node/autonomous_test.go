package node

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/loam-os/loam/agent/plane"
	"github.com/loam-os/loam/agent/plane/bundle"
	"github.com/loam-os/loam/agent/plane/pki"
	"github.com/loam-os/loam/agent/show"
	"github.com/loam-os/loam/agent/status"
	index "github.com/loam-os/loam/image/bundle"
	"github.com/loam-os/loam/image/publish/kubernetes"
	"github.com/loam-os/loam/test/cluster"
	"github.com/loam-os/loam/test/cluster/testcluster"
	"github.com/loam-os/loam/test/cluster/upstream"
	"github.com/loam-os/loam/test/judge"
	published "github.com/loam-os/loam/test/updates"
	"github.com/loam-os/loam/test/vm"
)

const (
	ownVersion = "1.37.2"
	ownImage   = "registry.test/hello:v1"
	dnsImage   = "coredns"
)

// TestAMachineIsACluster starts a machine with cluster.init and a repository with a
// bundle of Kubernetes. It becomes a Ready Node with a web server, which answers at
// the address of its Service. It keeps two processors busy: beside other machines, its
// API server takes longer to start than its unit gives it.
func TestAMachineIsACluster(t *testing.T) {
	c := newOwnCluster(t, "kube-proxy")
	n := c.on(t, c.credentials)
	n.shell()
	n.awaitNode()
	t.Logf("Ready after %s", time.Since(n.Started()))

	n.importImage(c.images)
	n.createWeb()
	n.awaitService()
	t.Logf("a Service answers after %s", time.Since(n.Started()))
	n.checkCommands()
	n.off()
}

// TestAClusterIsUsed has pods reach a web server by the DNS name of its Service,
// before and after a restart of the machine, and people use kubectl.
func TestAClusterIsUsed(t *testing.T) {
	skipUnlessProof(t)
	k := buildKubectl(t)
	c := newOwnCluster(t, "coredns", "kube-proxy")
	port, release, err := cluster.ReservePort("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	c.config.Forward = map[int]int{port: 6443}
	n := c.on(t, c.credentials)
	n.shell()
	n.awaitNode()
	t.Logf("Ready after %s", time.Since(n.Started()))

	n.importImage(c.images)
	n.createWeb()
	n.createClient("client")
	n.awaitAnswer("client")
	t.Logf("a pod answers by its DNS name after %s", time.Since(n.Started()))
	n.checkCommands()
	k.use(n, port)
	n.checkKubectl(k)
	n.checkRestarts(k)
	keys := n.sh(sumAuthorities)
	n.off()

	n = c.on(t, c.credentials)
	n.shell()
	n.awaitNode()
	t.Logf("Ready again after %s", time.Since(n.Started()))
	n.createClient("client-again")
	n.awaitAnswer("client-again")
	t.Logf("a pod answers again after %s", time.Since(n.Started()))
	n.want(sumAuthorities, keys)
	n.checkImages()
	n.off()
}

// checkImages has containerd lose an image of Kubernetes. What gives them imported
// none at this boot, as all were there, and gives the lost one back.
func (n *node) checkImages() {
	n.t.Helper()
	const imported = "journalctl --boot --unit=kubernetes-images.service | grep --count unpacking"
	n.want(imported+" || true", "0")
	pause := n.sh("ctr --namespace=k8s.io images list --quiet name~=pause")
	n.sh("ctr --namespace=k8s.io images remove --sync " + strings.TrimSpace(pause))
	n.sh("systemctl restart kubernetes-images.service")
	n.want(imported, "2")
	n.want("ctr --namespace=k8s.io images list --quiet name~=pause", strings.TrimSpace(pause))
}

// TestAClusterOfEachFamily makes clusters of IPv6, and of both families with either of
// them first. Pods reach a Service by its name, and the node by each of its addresses.
func TestAClusterOfEachFamily(t *testing.T) {
	judge.Long(t, "the families of test/plane")
	const (
		pods4, services4 = "10.244.0.0/16", "10.96.0.0/16"
		pods6, services6 = `"fd00:10:244::/48"`, `"fd00:10:96::/112"`
	)
	for _, c := range part(1, []struct{ name, pods, services string }{
		{"IPv6 and IPv4", pods6 + ", " + pods4, services6 + ", " + services4},
		{"IPv4 and IPv6", pods4 + ", " + pods6, services4 + ", " + services6},
		{"IPv6", pods6, services6},
	}) {
		t.Run(c.name, func(t *testing.T) {
			parallel(t, 5*time.Minute)
			networks := fmt.Sprintf("pods: [%s], services: [%s], ", c.pods, c.services)
			c := newOwnClusterWith(t, networks, "coredns", "kube-proxy")
			n := c.ready()
			n.importImage(c.images)
			n.createWeb()
			n.awaitService()
			n.createClient("client")
			n.awaitAnswer("client")
			n.checkCommands()
			n.off()
		})
	}
}

// TestAClusterWithAWrongClock makes clusters on machines whose clocks are wrong, ahead
// or behind, in different orders. Each is one still after each restart, with
// certificates that are valid and not due.
func TestAClusterWithAWrongClock(t *testing.T) {
	judge.Long(t, "the clocks of test/plane")
	now := time.Now().UTC()
	clocks := map[rune]string{
		'e': "1970-01-01", // an empty battery
		'n': now.Format(time.DateOnly),
		'l': now.AddDate(5, 0, 0).Format(time.DateOnly), // five years later
	}
	for _, order := range part(1, []string{
		"el", "eln", "enl", "nel", "nle", "len", "lne", "nln", "ele",
	}) {
		t.Run(order, func(t *testing.T) {
			parallel(t, 8*time.Minute)
			c := newOwnCluster(t, "kube-proxy")
			keys := ""
			for _, clock := range order {
				c.config.Clock = clocks[clock]
				n := c.on(t, c.credentials)
				n.shell()
				n.awaitNode()
				t.Logf("Ready at a clock of %s after %s", c.config.Clock, time.Since(n.Started()))

				if keys == "" {
					keys = n.sh(sumAuthorities)
					n.importImage(c.images)
					n.createWeb()
				}
				n.want(sumAuthorities, keys)
				n.awaitService()
				n.checkCertificates()
				n.off()
			}
		})
	}
}

// checkCertificates fails if a certificate of the node is not valid, or due.
func (n *node) checkCertificates() {
	n.t.Helper()
	text := n.sh("date +%s")
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		n.t.Fatal(err)
	}
	now := time.Unix(seconds, 0)

	for _, c := range n.awaitAnswers().Certificates {
		if !c.Renewal.After(now) || !c.Expires.After(now) {
			n.t.Errorf("at a clock of %s, the certificate %s is renewed on %s and expires on %s",
				now, c.Name, c.Renewal, c.Expires)
		}
	}
}

// An emulated machine with nothing beside it has an API server so long after it is
// switched on, and the result of a change so long after it is set.
const (
	clusterStarts  = 250 * time.Second
	clusterChanges = 100 * time.Second
)

// TestPowerCutsOfACluster pulls the plug of machines while they become clusters, while
// the record of one is changed, and while it starts at a clock at which all of its
// certificates are due. Then they are left alone, and are whole clusters, with the keys
// that they had once they were clusters: five cuts of each of ten machines.
func TestPowerCutsOfACluster(t *testing.T) {
	judge.Long(t, "test/crash/cluster")
	for _, machine := range part(1, []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}) {
		t.Run(fmt.Sprint("machine ", machine), func(t *testing.T) {
			parallel(t, 12*time.Minute)
			c := newOwnCluster(t, "kube-proxy")
			moments := part(1, []time.Duration{
				rand.N(clusterStarts), rand.N(clusterStarts), rand.N(clusterStarts),
			})
			slices.Sort(moments)
			for _, moment := range moments {
				t.Logf("power cut %s after the start", moment)
				c.on(t, c.credentials).cutAfter(moment)
			}

			n := c.ready()
			keys := n.sh(sumAuthorities)
			n.importImage(c.images)
			n.createWeb()
			n.awaitService()
			if !isProof() {
				n.off()
				return
			}

			moment := rand.N(clusterChanges)
			t.Logf("power cut %s after the record is set", moment)
			record := n.sh("cat " + plane.RecordFile)
			n.write("/run/record.json", withAudit(t, record, plane.AuditMetadata))
			fmt.Fprintln(n.Shell(), "loam cluster set /run/record.json &")
			n.cutAfter(moment)

			n = c.ready()
			n.want(sumAuthorities, keys)
			n.awaitService()
			n.checkCommands()
			n.off()

			moment = rand.N(clusterStarts)
			t.Logf("power cut %s after the start, five years later", moment)
			c.config.Clock = time.Now().UTC().AddDate(5, 0, 0).Format(time.DateOnly)
			c.on(t, c.credentials).cutAfter(moment)

			n = c.ready()
			n.want(sumAuthorities, keys)
			n.awaitService()
			n.checkCommands()
			n.checkCertificates()
			n.off()
		})
	}
}

// ready switches the machine on, and waits until its Node is Ready.
func (c ownCluster) ready() *node {
	c.t.Helper()
	n := c.on(c.t, c.credentials)
	n.shell()
	n.awaitNode()
	c.t.Logf("Ready after %s", time.Since(n.Started()))
	return n
}

// cutAfter pulls the plug of the machine after that time.
func (n *node) cutAfter(moment time.Duration) {
	n.t.Helper()
	select {
	case <-time.After(moment):
	case <-n.Done():
		n.t.Fatalf("the machine went off\n%s", n.Console().Tail(20))
	}
	if err := n.Kill(); err != nil {
		n.t.Fatal(err)
	}
}

// withAudit returns a cluster record with that audit policy.
func withAudit(t *testing.T, record, policy string) string {
	t.Helper()
	r, err := plane.Decode(plane.RecordFile, []byte(record))
	if err != nil {
		t.Fatal(err)
	}
	r.Audit.Policy = policy
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestAClusterWithAVolume gives etcd a disk beside one with data. Without its disk, the
// machine is up, says so, and has no cluster; with it, the cluster is as it was.
func TestAClusterWithAVolume(t *testing.T) {
	skipUnlessProof(t)
	c := newOwnCluster(t)
	dir := c.config.Dir
	disks := []dataDisk{{"etcd", 2 << 30, 512}, {"full", 2 << 30, 512}}
	for _, d := range disks {
		err := errors.Join(os.WriteFile(filepath.Join(dir, d.id), nil, 0o600),
			os.Truncate(filepath.Join(dir, d.id), d.size))
		if err != nil {
			t.Fatal(err)
		}
	}
	full, err := os.OpenFile(filepath.Join(dir, "full"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = full.Write(bytes.Repeat([]byte{0xa5}, 4096))
	if err := errors.Join(err, full.Close()); err != nil {
		t.Fatal(err)
	}
	untouched := sum(t, full.Name())

	c.credentials["loam.machine"] = strings.Replace(c.credentials["loam.machine"], "cluster:\n",
		"cluster:\n  etcdVolume: {minSize: 1Gi, maxSize: 3Gi, onlyEmpty: true}\n", 1)
	c.config.Arguments = dataDisks(dir, disks...)
	n := c.on(t, c.credentials)
	n.shell()
	n.awaitNode()

	const mountpoint = "/var/lib/private/etcd"
	n.want("findmnt -no FSTYPE "+mountpoint, "ext4")
	n.want("lsblk -no SERIAL $(findmnt -no SOURCE "+mountpoint+")", "S-etcd")
	n.want("test -d "+mountpoint+"/member && echo there", "there")
	if v := n.status().EtcdVolume; v == nil || v.Size != 2<<30 || v.Problem != "" {
		t.Errorf("volume of etcd %+v", v)
	}
	n.api("POST", "/api/v1/namespaces/default/configmaps", "--data",
		`{"metadata": {"name": "kept"}}`)
	keys := n.sh(sumAuthorities)
	n.off()

	c.config.Arguments = dataDisks(dir, disks[1])
	n = c.on(t, c.credentials)
	n.shell()
	n.says(func(s status.Status) bool {
		return s.EtcdVolume != nil && s.EtcdVolume.Problem != ""
	})
	n.want("systemctl is-active etcd.service || true", "inactive")
	n.want("ls "+mountpoint, "")
	n.want(sumAuthorities, keys)
	n.off()

	c.config.Arguments = dataDisks(dir, disks...)
	n = c.on(t, c.credentials)
	n.shell()
	n.awaitNode()
	n.api("GET", "/api/v1/namespaces/default/configmaps/kept")
	n.want(sumAuthorities, keys)
	n.off()

	if now := sum(t, full.Name()); now != untouched {
		t.Error("the disk with data was written to")
	}
}

func skipUnlessProof(t *testing.T) {
	t.Helper()
	if !isProof() {
		t.Skip("make cluster-proof runs it; instead: TestAMachineIsACluster")
	}
}

// isProof reports whether make cluster-proof runs, which does in full what make test-all
// does a small part of.
func isProof() bool { return os.Getenv("LOAM_CLUSTER") != "" }

// part returns all in make cluster-proof, the first n otherwise.
func part[T any](n int, all []T) []T {
	if isProof() {
		return all
	}
	return all[:n]
}

// ownCluster is a machine that becomes a cluster when it is switched on.
type ownCluster struct {
	*machine
	credentials map[string]string
	// images is the port on this host that serves the image of the pods.
	images string
}

// newOwnCluster returns a machine with an empty disk whose cluster has those
// add-ons.
func newOwnCluster(t *testing.T, addOns ...string) ownCluster {
	t.Helper()
	return newOwnClusterWith(t, "", addOns...)
}

// newOwnClusterWith is newOwnCluster with further settings for a new cluster, such as
// "services: [10.96.0.0/16], ".
func newOwnClusterWith(t *testing.T, settings string, addOns ...string) ownCluster {
	t.Helper()
	b := open(t)
	repository, root := serveKubernetes(t, slices.Contains(addOns, "coredns"))

	c := ownCluster{machine: b.flash(t, b.file(".raw")), images: serveImages(t, b.manifest.Arch)}
	c.config.Host = true
	c.config.MemoryMB = 4096
	// With one emulated processor, the API server alone keeps the node busy.
	c.config.CPUs = 2
	c.credentials = map[string]string{"loam.machine": fmt.Sprintf(`apiVersion: loam.dev/v1alpha1
kind: Machine
hostname: hello
debugShell: [%s]
cluster:
  init: {name: plant-7, kubernetes: %s, %saddOns: [%s]}
  allowSlowDisk: true
upgrade:
  repository: http://10.0.2.2:%s
  root: %q
`, vm.ShellTTY(b.manifest.Arch), ownVersion, settings, strings.Join(addOns, ", "), repository, root)}
	return c
}

// sumAuthorities prints the sums of the keys of the cluster's authorities.
const sumAuthorities = "sha256sum " + plane.KeysDirectory + "/authorities/*"

// importTimeout is for images of up to 200 MB, on a machine that is emulated beside
// others.
const importTimeout = 5 * stepTimeout

// importImage imports the image of the pods from that port of the host.
func (n *node) importImage(port string) {
	n.t.Helper()
	n.shWithin(importTimeout, fmt.Sprintf("curl --silent --fail http://10.0.2.2:%s/ | "+
		"ctr --namespace=k8s.io images import --local -", port))
}

// webPath is what the web server is asked for, webURL how pods reach it.
const (
	webPath = "/node/os-release"
	webURL  = "http://web.default.svc.cluster.local" + webPath
)

// createWeb creates a web server with a Service.
func (n *node) createWeb() {
	n.t.Helper()
	n.api("POST", "/apis/apps/v1/namespaces/default/deployments", "--data", fmt.Sprintf(`{
		"metadata": {"name": "web"},
		"spec": {
			"selector": {"matchLabels": {"app": "web"}},
			"template": {
				"metadata": {"labels": {"app": "web"}},
				"spec": {"containers": [{
					"name": "web", "image": "%s", "imagePullPolicy": "Never",
					"volumeMounts": [{"name": "node", "mountPath": "/node", "readOnly": true}]}],
					"volumes": [{"name": "node", "hostPath": {"path": "/usr/lib"}}]}}}}`, ownImage))
	n.api("POST", "/api/v1/namespaces/default/services", "--data", `{
		"metadata": {"name": "web"},
		"spec": {
			"ipFamilyPolicy": "PreferDualStack",
			"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]}}`)
}

// awaitService waits until the web server answers at each address of its Service.
func (n *node) awaitService() {
	n.t.Helper()
	var service struct{ Spec struct{ ClusterIPs []string } }
	text := n.api("GET", "/api/v1/namespaces/default/services/web")
	if err := json.Unmarshal([]byte(text), &service); err != nil {
		n.t.Fatal(err)
	}

	for _, address := range service.Spec.ClusterIPs {
		n.awaitWeb(address)
	}
}

// awaitWeb waits until the web server answers at that address.
func (n *node) awaitWeb(address string) {
	n.t.Helper()
	want := n.sh("head -n 1 /usr/lib/os-release")
	ask := fmt.Sprintf("curl --silent --max-time 5 http://%s%s | head -n 1",
		net.JoinHostPort(address, "80"), webPath)
	for end := time.Now().Add(3 * stepTimeout); time.Now().Before(end); time.Sleep(pollPause) {
		if n.sh(ask) == want {
			return
		}
	}
	n.t.Fatalf("the Service does not answer at %s\n%s", address, n.explain())
}

// createClient creates a pod that asks the web server.
func (n *node) createClient(name string) {
	n.t.Helper()
	n.api("POST", "/api/v1/namespaces/default/pods", "--data", fmt.Sprintf(`{
		"metadata": {"name": "%s"},
		"spec": {"containers": [{
			"name": "client", "image": "%s", "imagePullPolicy": "Never", "args": ["%s"]}]}}`,
		name, ownImage, webURL))
}

// awaitAnswer waits until the client says what the web server has answered: a file
// of the node.
func (n *node) awaitAnswer(pod string) {
	n.t.Helper()
	want := n.sh("head -n 1 /usr/lib/os-release")
	var log string
	for end := time.Now().Add(3 * stepTimeout); time.Now().Before(end); time.Sleep(apiPause) {
		log = n.sh(askAPI("/api/v1/namespaces/default/pods/" + pod + "/log"))
		if strings.Contains(log, want) {
			return
		}
	}
	n.t.Fatalf("the client says %q, want %q\n%s", log, want, n.explain())
}

// explain returns what the node and its cluster say about themselves.
func (n *node) explain() string {
	n.t.Helper()
	return n.sh("loam status; loam cluster status; systemctl --failed --no-legend; "+
		"journalctl -b --no-pager -p warning -n 60 -o cat; "+
		"crictl ps -a 2>/dev/null; nft list ruleset | tail -n 60") + "\n" +
		n.sh("{ "+askAPI("/api/v1/namespaces/default/pods")+"; } | tail -c 4000")
}

// checkCommands runs the commands for the node's own cluster. The kubeconfig reaches
// the API server at the node's address.
func (n *node) checkCommands() {
	n.t.Helper()
	shown := n.awaitAnswers()
	if shown.Name != "plant-7" || len(shown.Units) != 6 {
		n.t.Errorf("cluster %+v", shown)
	}
	if shown.Storage.Size == 0 || shown.Storage.Quota == 0 {
		n.t.Errorf("storage of etcd %+v", shown.Storage)
	}

	var access struct {
		Users []struct {
			User struct {
				Pair []byte `json:"client-key-data"`
			}
		}
		Clusters []struct{ Cluster struct{ Server string } }
	}
	if err := json.Unmarshal([]byte(n.sh("loam cluster kubeconfig --for 1h")), &access); err != nil {
		n.t.Fatal(err)
	}
	n.write("/run/access.pem", string(access.Users[0].User.Pair))
	server := strings.TrimPrefix(access.Clusters[0].Cluster.Server, "https://")
	n.want(fmt.Sprintf("curl --silent --fail --cert /run/access.pem --cacert %s --connect-to ::%s "+
		"https://%s:6443/readyz", pki.Files{Dir: plane.KeysDirectory}.Authority(pki.CA), server,
		pki.ServerName), "ok")
}

// awaitAnswers waits until the API server and etcd have answered loam cluster status,
// which gives them some seconds: not always enough beside other machines.
func (n *node) awaitAnswers() show.OwnCluster {
	n.t.Helper()
	var text string
	for end := time.Now().Add(stepTimeout); time.Now().Before(end); time.Sleep(pollPause) {
		text = n.sh("loam cluster status -o json")
		var shown show.OwnCluster
		if err := json.Unmarshal([]byte(text), &shown); err != nil {
			n.t.Fatal(err)
		}
		if shown.API == "ok" && shown.Etcd == "ok" && shown.Storage != nil {
			return shown
		}
	}
	n.t.Fatalf("the cluster does not answer: %s\n%s", text, n.explain())
	return show.OwnCluster{}
}

// api sends a request to the API server, with further arguments for curl.
func (n *node) api(method, path string, args ...string) string {
	n.t.Helper()
	return n.sh(apiCommand(method, path, args...))
}

// askAPI is a command that asks the API server, which need not answer: one that is
// starting may take a request and keep it for ever.
func askAPI(path string) string { return apiCommand("GET", path, "--max-time", "30") + " || true" }

func apiCommand(method, path string, args ...string) string {
	keys := pki.Files{Dir: plane.KeysDirectory}
	command := []string{
		"curl", "--silent", "--fail", "--request", method, "--cacert", keys.Authority(pki.CA),
		"--cert", keys.Leaf(pki.KubeletClient), "--connect-to", "::127.0.0.1:",
		"--header", "'Content-Type: application/json'",
	}
	for _, a := range args {
		command = append(command, "'"+strings.Join(strings.Fields(a), " ")+"'")
	}
	return strings.Join(append(command,
		fmt.Sprintf("https://%s:6443%s", pki.ServerName, path)), " ")
}

// awaitNode waits until the Node is Ready in this run of the machine.
func (n *node) awaitNode() {
	n.t.Helper()
	n.awaitReady("/api/v1/nodes/hello")
}

// booted returns when the machine was switched on, by its own clock.
func (n *node) booted() time.Time {
	n.t.Helper()
	text := n.sh("echo $(( $(date +%s) - $(cut -d. -f1 /proc/uptime) ))")
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		n.t.Fatal(err)
	}
	return time.Unix(seconds, 0)
}

// conditions are the conditions of an object.
type conditions struct {
	Status struct {
		Conditions []struct {
			Type, Status                          string
			LastTransitionTime, LastHeartbeatTime time.Time
		}
	}
}

// readySince returns when an object was last found Ready, zero if it is not.
func (c conditions) readySince() time.Time {
	var since time.Time
	for _, one := range c.Status.Conditions {
		if one.Type != "Ready" || one.Status != "True" {
			continue
		}
		since = one.LastTransitionTime
		if one.LastHeartbeatTime.After(since) {
			since = one.LastHeartbeatTime
		}
	}
	return since
}

// apiPause is the pause between two requests to a machine's API server, of which
// each is a handshake of TLS.
const apiPause = 5 * time.Second

// awaitReady waits until an object is Ready since the machine was switched on.
func (n *node) awaitReady(path string) {
	n.t.Helper()
	booted := n.booted()
	var text string
	for end := time.Now().Add(3 * stepTimeout); time.Now().Before(end); time.Sleep(apiPause) {
		text = n.sh(askAPI(path))
		var object conditions
		err := json.Unmarshal([]byte(text), &object)
		if err == nil && object.readySince().After(booted) {
			return
		}
	}
	n.t.Fatalf("%s is not Ready:\n%s\n%s", path, text, n.explain())
}

// serveKubernetes serves a repository with a bundle of Kubernetes on this host's
// loopback, and returns the port, and what a node trusts.
func serveKubernetes(t *testing.T, withDNS bool) (port string, root []byte) {
	t.Helper()
	b := kubernetesBundle(t, withDNS)
	r := published.NewLasting(t, 10*365*24*time.Hour) // A clock may be five years ahead.
	r.PublishKubernetes(b.Index, b.Pack)
	return serveOn(t, http.FileServer(http.Dir(r.Dir))), r.Root()
}

// kubernetesBundle returns a bundle of Kubernetes. Without CoreDNS, which takes
// minutes to build, its image has another program.
func kubernetesBundle(t *testing.T, withDNS bool) kubernetes.Bundle {
	t.Helper()
	programs := map[string]string{}
	for _, name := range slices.Concat(bundle.Programs, index.KubernetesImages()) {
		if name != dnsImage || withDNS {
			programs[name] = cluster.Program(t, name)
		}
	}
	if !withDNS {
		programs[dnsImage] = programs["pause"]
	}
	b, err := upstream.Bundle(t.Context(), programs)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// serveOn serves on this host's loopback, and returns the port.
func serveOn(t *testing.T, handler http.Handler) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	_, port, _ := strings.Cut(strings.TrimPrefix(server.URL, "http://"), ":")
	return port
}

// serveImages serves an archive with the image of the pods.
func serveImages(t *testing.T, arch string) string {
	t.Helper()
	web, err := testcluster.Program(t.Context(), arch, testcluster.Web)
	if err != nil {
		t.Fatal(err)
	}
	images := map[string]cluster.Image{ownImage: {
		Arch:       arch,
		Layers:     []cluster.Layer{{"web": {Content: web, Mode: 0o755}}},
		Entrypoint: []string{"/web"},
	}}
	return serveOn(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		// ctr on the node notices an end that is missing.
		_ = cluster.WriteArchive(w, images)
	}))
}
