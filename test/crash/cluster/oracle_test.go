package cluster_test

import (
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/plane"
	"github.com/loam-os/loam/agent/plane/pki"
)

// belongings are what a disk has of a cluster, all of it whole.
type belongings struct {
	// record is nil if there is none.
	record *plane.Record
	// identity is "" if there are no keys, and data is the identity that etcd's data
	// is of, "" if there is no data.
	identity, data string
	authorities    map[string]pki.Authority
	leaves         map[string]*x509.Certificate
}

// examine reads a disk, whatever starts from it. It returns an error if something is
// damaged, and if something is there without what it needs.
func examine(n *clusterNode) (belongings, error) {
	store := plane.NewStore(durable.New(n.root, nil))
	var b belongings
	record, found, err := store.Record()
	if err != nil {
		return b, fmt.Errorf("the record is damaged: %w", err)
	}
	if found {
		b.record = &record
	}

	if b.identity, err = identity(n); err != nil {
		return b, err
	}
	data, err := n.root.ReadFile(etcdMade)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return b, err
	}
	b.data = string(data)

	switch {
	case b.identity == "" && (found || b.data != ""):
		return b, errors.New("the keys are lost")
	case b.data != "" && !found:
		return b, errors.New("etcd has data, and the record is lost")
	case b.data != "" && b.data != b.identity:
		return b, errors.New("etcd has data of other keys")
	case b.identity != "":
		if err := b.readKeys(n, store); err != nil {
			return b, err
		}
	}
	return b, b.readLeaves(n)
}

// readKeys reads the authorities and keys, which are all there.
func (b *belongings) readKeys(n *clusterNode, store plane.Store) error {
	var err error
	if b.authorities, err = store.Keys.Authorities(); err != nil {
		return err
	}

	keys := pki.Files{Dir: plane.KeysDirectory[1:]}
	block := func(name string) []byte {
		text, readErr := n.root.ReadFile(name)
		err = errors.Join(err, readErr)
		found, _ := pem.Decode(text)
		if found == nil {
			err = errors.Join(err, fmt.Errorf("%s is not PEM", name))
			return nil
		}
		return found.Bytes
	}
	private, keyErr := x509.ParsePKCS8PrivateKey(block(keys.ServiceAccount()))
	public, publicErr := x509.ParsePKIXPublicKey(block(keys.ServiceAccountPublic()))
	if err := errors.Join(err, keyErr, publicErr); err != nil {
		return fmt.Errorf("the key of service accounts: %w", err)
	}
	if !private.(*ecdsa.PrivateKey).PublicKey.Equal(public) {
		return errors.New("the key of service accounts has another public key")
	}
	return b.checkEncryption(n, keys)
}

// checkEncryption: the key is whole, and the configuration of the API server has it.
func (b *belongings) checkEncryption(n *clusterNode, keys pki.Files) error {
	secret, err := n.root.ReadFile(keys.Dir + "/authorities/encryption.key")
	if err != nil {
		return err
	}
	if key, err := base64.StdEncoding.DecodeString(string(secret)); err != nil || len(key) != 32 {
		return fmt.Errorf("the encryption key is damaged: %d bytes, %w", len(key), err)
	}
	text, err := n.root.ReadFile(keys.Encryption())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && !strings.Contains(string(text), `"`+string(secret)+`"`) {
		err = errors.New("the encryption configuration has another key")
	}
	return err
}

// readLeaves reads the certificates that are there. Each has its key, and the authority
// of the node has issued it.
func (b *belongings) readLeaves(n *clusterNode) error {
	b.leaves = map[string]*x509.Certificate{}
	for _, leaf := range leavesOf(first()) {
		name := pki.Files{Dir: plane.KeysDirectory[1:]}.Leaf(leaf.Name)
		text, err := n.root.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		pair, err := tls.X509KeyPair(text, text)
		if err != nil {
			return fmt.Errorf("%s is damaged: %w", name, err)
		}
		authority, found := b.authorities[leaf.Authority]
		if !found || pair.Leaf.CheckSignatureFrom(authority.Certificate) != nil {
			return fmt.Errorf("the authority of the node did not issue %s", name)
		}
		b.leaves[leaf.Name] = pair.Leaf
	}
	return nil
}

func leavesOf(r plane.Record) []pki.Leaf { return pki.Leaves(r.Names("node-1")) }

// checkLeaves verifies leaves at that time as their peers do: all of them, or those with
// these names.
func (b *belongings) checkLeaves(now time.Time, names ...string) error {
	r := first()
	if b.record != nil {
		r = *b.record
	}
	for _, leaf := range leavesOf(r) {
		if len(names) > 0 && !slices.Contains(names, leaf.Name) {
			continue
		}
		cert := b.leaves[leaf.Name]
		if cert == nil {
			return fmt.Errorf("there is no certificate %s", leaf.Name)
		}

		roots := x509.NewCertPool()
		roots.AddCert(b.authorities[leaf.Authority].Certificate)
		options := x509.VerifyOptions{
			Roots:       roots,
			CurrentTime: now,
			KeyUsages:   []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
		}
		if _, err := cert.Verify(options); err != nil {
			return fmt.Errorf("certificate %s: %w", leaf.Name, err)
		}
		for _, name := range leaf.Names {
			if err := cert.VerifyHostname(name); err != nil {
				return fmt.Errorf("certificate %s: %w", leaf.Name, err)
			}
		}
	}
	return nil
}

// allowed is what a crash may leave.
type allowed struct {
	// records are the records; none is allowed too if first is set.
	records []plane.Record
	first   bool
	// identity is what keys must be, if any. It must be there once etcd may have started.
	identity string
	started  bool
}

// checkLeft examines what a crash has left.
func (a allowed) checkLeft(n *clusterNode) (belongings, error) {
	b, err := examine(n)
	if err != nil {
		return b, err
	}
	if b.identity != a.identity && (b.identity != "" || a.started) {
		return b, errors.New("the keys are not those that were made")
	}
	if b.record == nil && (!a.first || a.started) {
		return b, errors.New("the record is lost")
	}
	if b.record != nil && !slices.ContainsFunc(a.records, func(r plane.Record) bool {
		return reflect.DeepEqual(r, *b.record)
	}) {
		return b, fmt.Errorf("the record is another one:\n%s", b.record.Text())
	}
	return b, nil
}

// check starts a node that a crash has left and lets it go on until it has the record
// want. It returns an error unless it is one cluster all the time, and then as looks.
func check(n *clusterNode, a allowed, want plane.Record, looks map[string]string) error {
	left, err := a.checkLeft(n)
	if err != nil {
		return fmt.Errorf("on the disk: %w", err)
	}

	if err := n.goOn(want); err != nil {
		return err
	}
	after, err := examine(n)
	if err != nil {
		return fmt.Errorf("afterwards: %w", err)
	}
	if left.identity != "" && after.identity != left.identity {
		return errors.New("afterwards there is a second set of keys")
	}
	if after.data == "" {
		return errors.New("afterwards etcd has not started")
	}
	if err := after.checkLeaves(n.now); err != nil {
		return fmt.Errorf("afterwards: %w", err)
	}
	if diff := differ(looks, n.looks()); diff != "" {
		return fmt.Errorf("afterwards it is not as an undisturbed node:\n%s", diff)
	}
	return n.atRest()
}

// goOn starts the node, and changes its record once more if the change was lost.
func (n *clusterNode) goOn(want plane.Record) error {
	a, err := n.powerOn()
	if err != nil {
		return err
	}
	if err := a.settle(); err != nil {
		return err
	}
	have, found, err := a.store.Record()
	if err != nil || !found || reflect.DeepEqual(have, want) {
		return err
	}
	if err := a.set(want); err != nil {
		return err
	}
	return a.settle()
}

// atRest makes sure that another start of the machine writes nothing.
func (n *clusterNode) atRest() error {
	var steps []string
	hook := n.hook
	defer func() { n.hook = hook }()
	n.hook = func(dir string) durable.Hook {
		return func(s durable.Step) error {
			name := path.Join(dir, s.Name)
			if !slices.ContainsFunc(volatile, func(v string) bool {
				return strings.HasPrefix(name, v+"/")
			}) {
				steps = append(steps, s.String())
			}
			return nil
		}
	}

	a, err := n.powerOn()
	if err == nil {
		err = a.settle()
	}
	if err != nil || len(steps) > 0 {
		return fmt.Errorf("another start did %q: %w", steps, err)
	}
	return nil
}

// looks returns the files of the cluster with their modes, and with their content where it
// is not random.
func (n *clusterNode) looks() map[string]string {
	seen := map[string]string{}
	for _, dir := range []string{plane.StateDirectory[1:], "var/lib/private", "var/lib/loam/kubernetes"} {
		_ = fs.WalkDir(n.root.FS(), dir, func(name string, e fs.DirEntry, err error) error {
			if err != nil {
				seen[name] = err.Error()
				return nil
			}
			info, err := e.Info()
			if err != nil {
				seen[name] = err.Error()
				return nil
			}
			seen[name] = info.Mode().String()
			if path.Dir(name) == plane.StateDirectory[1:] && !e.IsDir() {
				text, _ := n.root.ReadFile(name)
				seen[name] += " " + string(text)
			}
			return nil
		})
	}
	return seen
}

// differ lists where two maps are not the same.
func differ(want, have map[string]string) string {
	var lines []string
	for name, text := range have {
		if old, ok := want[name]; !ok {
			lines = append(lines, name+" is there, "+text)
		} else if old != text {
			lines = append(lines, fmt.Sprintf("%s is %s, want %s", name, text, old))
		}
	}
	for name := range want {
		if _, ok := have[name]; !ok {
			lines = append(lines, name+" is not there")
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
