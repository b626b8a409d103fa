package fleet

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/cluster"
	"github.com/loam-os/loam/agent/cluster/credentials"
	"github.com/loam-os/loam/test/apiserver"
)

const (
	secretName     = "gardener-node-agent-pool"
	ledgerName     = "loam-rollout-pool"
	markAnnotation = "loam.dev/turn"
	doneAnnotation = "checksum/cloud-config-data"
	rackLabel      = "example.com/rack"

	// otherLabel is on Nodes that the policy of a course does not select.
	otherLabel = "example.com/other"

	nodesPath   = "/api/v1/nodes"
	secretsPath = "/api/v1/namespaces/kube-system/secrets"

	// serverURL reaches the server in memory: nothing resolves it.
	serverURL = "https://memory"
)

// Options are of a fleet to be.
type Options struct {
	// Nodes is how many there are, in as many Zones, and Racks of each zone.
	Nodes, Zones, Racks int

	// Policy is how they take turns, and Limits what it allows.
	Policy string
	Limits Limits

	// Restart is how long a unit restarts, Reboot how long a machine is away with
	// another system.
	Restart, Reboot time.Duration

	// Fails makes the restart of a unit on that node fail with the configuration text;
	// nil for none.
	Fails func(node, text string) bool

	// Canary reports whether a node goes first; nil for none.
	Canary func(node string) bool

	// Seed is that of the networks of the agents, in which requests take their time
	// and faults may happen. Without one, requests take up to Delay.
	Seed  uint64
	Delay time.Duration
}

// Fleet is nodes of one pool. It must be used within one bubble of
// testing/synctest.
type Fleet struct {
	testing.TB
	Server  *apiserver.Server
	Options Options

	admin   apiserver.Transport
	checker *checker
	members []*member
	counts  *counts

	// serving is held while a request of an agent with a network is served.
	serving sync.Mutex

	// happening are accidents that happen because an agent has sent a request.
	happening chan func()

	ctx   context.Context
	group sync.WaitGroup
}

// client-go lets the goroutine of an error sleep until a millisecond after the last
// error in this process, which may be one of another bubble: years later.
func init() { utilruntime.ErrorHandlers = nil }

// New starts a fleet whose nodes run the configuration text when it returns.
func New(t testing.TB, o Options, text string) *Fleet {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	server := apiserver.New()
	f := &Fleet{
		TB:      t,
		Server:  server,
		Options: o,
		admin:   apiserver.Transport{Server: server},
		checker: newChecker(o.Limits),
		counts:  newCounts(),

		happening: make(chan func(), 64),
		ctx:       ctx,
	}
	server.Watched = f.checker.watched
	t.Cleanup(func() {
		cancel()
		f.group.Wait()
	})

	who := certificate(t)
	dir := directory(t)
	f.Configure(text)
	for i := range o.Nodes {
		f.add(i, filepath.Join(dir, fmt.Sprint(i)), who)
	}
	for _, m := range f.members {
		m.start() // Nothing else has its lock yet.
	}
	f.Await("the first configuration", 10*time.Minute, func() error { return f.runs(text) })
	return f
}

// directory is in memory where it can be.
func directory(t testing.TB) string {
	dir, err := os.MkdirTemp("/dev/shm", "loam-fleet-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// certificate is the identity of all agents: the server in memory does not look at
// it.
func certificate(t testing.TB) credentials.Credentials {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().AddDate(10, 0, 0),
	}
	text, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return credentials.Credentials{
		Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: text}),
		Key:         pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private}),
		NotAfter:    template.NotAfter,
	}
}

// add makes a node that has joined, and its Node.
func (f *Fleet) add(i int, dir string, who credentials.Credentials) {
	f.Helper()
	name := fmt.Sprint("node-", i)
	zone := i % f.Options.Zones
	f.checker.places[name] = place{
		zone: fmt.Sprint("zone-", zone),
		rack: fmt.Sprintf("rack-%d-%d", zone, i/f.Options.Zones%f.Options.Racks),
	}

	if err := os.MkdirAll(dir, 0o755); err != nil {
		f.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		f.Fatal(err)
	}
	defer root.Close()
	target := credentials.Target{Server: serverURL, CA: who.Certificate}
	if err := credentials.Open(root).Save(target, who); err != nil {
		f.Fatal(err)
	}

	m := newMember(f, name, dir, i, cluster.Config{
		Server:     serverURL,
		CA:         who.Certificate,
		SecretName: secretName,
		Machine:    name,
		Hostname:   name,
	})
	f.members = append(f.members, m)
	m.register()
}

// labels returns more labels of a Node, as the rest of a JSON object.
func (f *Fleet) labels(name string) string {
	if f.Options.Canary != nil && f.Options.Canary(name) {
		return `, "loam.dev/canary": ""`
	}
	return ""
}

// Do sends a request of an administrator that has to succeed; a PATCH is a merge
// patch, or a strategic one of a status.
func (f *Fleet) Do(method, path, body string) []byte {
	f.Helper()
	code, text := f.send(method, path, body)
	if code/100 != 2 {
		f.Fatalf("%s %s: %d %s", method, path, code, text)
	}
	return text
}

// asks is Do of a request that may be refused. It reports whether it was not.
func (f *Fleet) asks(method, path, body string) bool {
	code, _ := f.send(method, path, body)
	return code/100 == 2
}

// send returns the answer to a request of an administrator.
func (f *Fleet) send(method, path, body string) (code int, text []byte) {
	f.serving.Lock()
	defer f.serving.Unlock()
	return f.sendAlone(method, path, body)
}

// sendAlone is send while serving is held: no agent writes in between.
func (f *Fleet) sendAlone(method, path, body string) (code int, text []byte) {
	r, err := http.NewRequest(method, serverURL+path, strings.NewReader(body))
	if err != nil {
		f.Error(err)
		return 0, nil
	}
	r.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		r.Header.Set("Content-Type", "application/merge-patch+json")
		if strings.HasSuffix(path, "/status") {
			r.Header.Set("Content-Type", "application/strategic-merge-patch+json")
		}
	}
	a, err := f.admin.RoundTrip(r)
	if err != nil {
		f.Error(err)
		return 0, nil
	}
	defer a.Body.Close()
	text, err = io.ReadAll(a.Body)
	if err != nil {
		f.Error(err)
		return 0, nil
	}
	return a.StatusCode, text
}

// Configure makes text the configuration of the pool.
func (f *Fleet) Configure(text string) {
	f.Helper()
	body, err := json.Marshal(core.Secret{Data: map[string][]byte{"osc.yaml": []byte(text)}})
	if err != nil {
		f.Fatal(err)
	}
	var secret map[string]any
	if err := json.Unmarshal(body, &secret); err != nil {
		f.Fatal(err)
	}
	secret["metadata"] = map[string]any{
		"name":        secretName,
		"annotations": map[string]any{"rollout.loam.dev/policy": f.Options.Policy},
	}
	body, err = json.Marshal(secret)
	if err != nil {
		f.Fatal(err)
	}
	if f.checker.configured() {
		f.Do(http.MethodPut, secretsPath+"/"+secretName, string(body))
		return
	}
	f.Do(http.MethodPost, secretsPath, string(body))
}

// Await waits until right is nil, for at most so long, and returns how long that
// took. It fails at once if the checker has found a fault.
func (f *Fleet) Await(what string, most time.Duration, right func() error) time.Duration {
	f.Helper()
	begun := time.Now()
	for {
		err := right()
		s := f.checker.state()
		switch {
		case len(s.faults) > 0:
			f.Fatalf("%s: after %s:\n%s", what, time.Since(begun), strings.Join(s.faults, "\n"))
		case err == nil:
			return time.Since(begun)
		case time.Since(begun) > most:
			f.Fatalf("%s: not after %s: %v; ledger: %s", what, most, err, s.ledger.Summary())
		}
		time.Sleep(time.Second) // The clock is that of the bubble.
	}
}

// runs is nil if all Nodes say that they run the configuration text.
func (f *Fleet) runs(text string) error {
	n := f.checker.running(sum(text))
	if n != f.Options.Nodes {
		return fmt.Errorf("%d of %d nodes run it", n, f.Options.Nodes)
	}
	return nil
}

// settled is nil if no node has a turn or a mark. Without its mark, a restored turn
// counts no more; its node removes it before its next turn.
func (f *Fleet) settled() error {
	s := f.checker.state()
	if n := len(s.ledger.Holders); n > 0 || len(s.marked) > 0 {
		return fmt.Errorf("%d turns, %d marks", n, len(s.marked))
	}
	return nil
}

// Rollout gives the pool a configuration and returns how long it takes until all
// run it and have given their turns.
func (f *Fleet) Rollout(text string, most time.Duration) time.Duration {
	f.Helper()
	f.Configure(text)
	return f.Await("the rollout of a configuration", most, func() error {
		return errors.Join(f.runs(text), f.settled())
	})
}

// Upgrade has all nodes upgrade to a system, and returns how long that takes.
func (f *Fleet) Upgrade(version, hash string, most time.Duration) time.Duration {
	f.Helper()
	for _, m := range f.members {
		m.arm(system{version: version, hash: hash})
	}
	return f.Await("the rollout of a system", most, func() error {
		if n := f.running(hash); n != len(f.members) {
			return fmt.Errorf("%d of %d nodes run it", n, len(f.members))
		}
		return f.settled()
	})
}

// running returns how many machines run a system.
func (f *Fleet) running(hash string) int {
	n := 0
	for _, m := range f.members {
		if m.runsSystem(hash) {
			n++
		}
	}
	return n
}

// Configuration is a configuration with one unit, which restarts when the text is
// another.
func Configuration(text string) string {
	return `apiVersion: extensions.gardener.cloud/v1alpha1
kind: OperatingSystemConfig
spec:
  units:
  - name: kubelet.service
    content: |
      [Service]
      ExecStart=sleep infinity
      [Install]
      WantedBy=multi-user.target
    filePaths: [/etc/a]
  files:
  - path: /etc/a
    content: {inline: {data: ` + text + `}}
`
}

func sum(text string) string {
	s := sha256.Sum256([]byte(text))
	return hex.EncodeToString(s[:])
}

// logger says what agents do if LOAM_LOG is set.
func logger() *zap.Logger {
	if os.Getenv("LOAM_LOG") == "" {
		return zap.NewNop()
	}
	return zap.Must(zap.NewDevelopment())
}
