package plane

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/document"
	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/plane/pki"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

// StateDirectory is where a node keeps its cluster: record.json, its keys, and what is
// of this node alone.
const StateDirectory = "/var/lib/loam/plane"

// KeysDirectory is the directory of the keys.
const KeysDirectory = StateDirectory + "/keys"

// RecordFile is the record of the node.
const RecordFile = StateDirectory + "/record.json"

const addressFile = StateDirectory + "/address"

// fsyncFile has what was measured of the disk of etcd before the cluster was made.
const fsyncFile = StateDirectory + "/fsync-p99"

// etcdState is the data of etcd, where systemd has it for a DynamicUser.
const etcdState = "/var/lib/private/etcd"

// Directories returns what a node without its cluster has no use for, in the order in
// which it loses them: the data of etcd, and the record and the keys.
func Directories() []string { return []string{etcdState, StateDirectory} }

// ErrOtherCluster means that a node belongs to another cluster already.
var ErrOtherCluster = errors.New("this node belongs to another cluster")

// Store is what a node keeps of its cluster.
type Store struct {
	// dir is the root directory of the node.
	dir *durable.Dir
	records
	facts

	// Keys are the keys of the cluster.
	Keys pki.Store
}

// NewStore returns the store of the node with that root directory.
func NewStore(root *durable.Dir) Store {
	return Store{
		dir:     root,
		records: records{root},
		facts:   facts{root},
		Keys:    pki.NewStore(root, KeysDirectory[1:]),
	}
}

// Init makes the node the first of the cluster, and returns the record of the
// node. r must be valid. Of a node that is the first already it changes nothing,
// and its record may have changed since; the error is [ErrOtherCluster] if its
// cluster has another name.
//
// The record comes last. Until it is there, Init may be called again and keeps the
// keys that it finds; from then on a node without keys has lost them.
func (s Store) Init(r Record, times pki.Times) (Record, error) {
	have, found, err := s.Record()
	if err != nil {
		return Record{}, err
	}
	if found {
		return have, s.checkInit(have, r)
	}
	if err := s.checkLost(r); err != nil {
		return Record{}, err
	}

	if err := s.Keys.Create(r.Name, times); err != nil && !errors.Is(err, pki.ErrExists) {
		return Record{}, err
	}
	return r, s.WriteRecord(r)
}

// CheckInit reports whether the node is the first of the cluster of r already. The
// error says why it cannot be.
func (s Store) CheckInit(r Record) (bool, error) {
	have, found, err := s.Followed()
	if err != nil {
		return false, err
	}
	if !found {
		return false, s.checkLost(r)
	}
	return true, s.checkInit(have, r)
}

// checkLost reports that a node without a record has had one: etcd has data, which
// need the keys and networks of that record.
func (s Store) checkLost(r Record) error {
	_, err := s.dir.Root().Lstat(etcdState[1:] + "/member")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return hint.With(fault.With(
		fmt.Errorf("init %s: this node has the data of a cluster, and not its record", r.Name),
		fault.CannotBeApplied,
	), "restore %s of this node, or reset the node: its cluster is lost then", StateDirectory)
}

// checkInit reports why the node with the record have cannot be the first of the
// cluster of r.
func (s Store) checkInit(have, r Record) error {
	if have.Name != r.Name {
		err := fmt.Errorf("init %s: %w, %s", r.Name, ErrOtherCluster, have.Name)
		return document.At("name", hint.With(fault.With(err, fault.CannotBeApplied),
			"keep the name, or reset the node: its cluster is lost then"))
	}

	_, err := s.Keys.Authorities()
	if errors.Is(err, pki.ErrAbsent) {
		return hint.With(fmt.Errorf("cluster %s: %w", have.Name, err),
			"restore %s of this node: other keys would be another cluster", KeysDirectory)
	}
	return err
}

// Desired issues the certificates that are due, and returns the configuration of
// the node and what it issued. It must be called before the programs start, and
// again from time to time: of those that run, only etcd needs a restart for its
// new certificates, which is then a change of its unit. m is without Keys and
// EtcdCertificates.
func (s Store) Desired(
	r Record, m Member, times pki.Times,
) (config.Desired, []pki.Renewal, error) {
	if err := m.check(r); err != nil {
		return config.Desired{}, nil, err
	}

	renewed, err := s.Renew(r, m.Name, times)
	if err != nil {
		return config.Desired{}, nil, err
	}
	desired, err := s.Preview(r, m)
	return desired, renewed, err
}

// Preview is Desired with the certificates that are there. It writes nothing.
func (s Store) Preview(r Record, m Member) (config.Desired, error) {
	if err := m.check(r); err != nil {
		return config.Desired{}, err
	}

	m.Keys = pki.Files{Dir: KeysDirectory}
	var serials []string
	issued := s.Certificates(r)
	for _, name := range []string{pki.EtcdServer, pki.EtcdPeer} {
		cert := issued[name]
		if cert == nil {
			return config.Desired{}, fmt.Errorf("%s cannot be read", m.Keys.Leaf(name))
		}
		serials = append(serials, cert.SerialNumber.Text(16))
	}
	m.EtcdCertificates = strings.Join(serials, " ")
	return Render(r, m), nil
}

// Renew issues the certificates that are due on the node of that name, and returns
// what it issued. What was ever encrypted stays encrypted, also if an operator has taken
// it out of r.
func (s Store) Renew(r Record, node string, times pki.Times) ([]pki.Renewal, error) {
	applied, err := s.Applied()
	if err != nil {
		return nil, err
	}
	r, err = s.withEncrypted(r, applied)
	if err != nil {
		return nil, err
	}
	return s.Keys.Renew(pki.Leaves(r.Names(node)), r.Encrypt, times)
}

// withEncrypted returns r with all resources that etcd may have encrypted. applied is the
// record that runs, nil if none: it counts as well, for the keys may have been restored.
func (s Store) withEncrypted(r Record, applied *Record) (Record, error) {
	encrypted, err := s.Keys.Encrypted()
	if err != nil {
		return r, err
	}
	r.Encrypt = slices.Concat(r.Encrypt, encrypted)
	if applied != nil {
		r.Encrypt = append(r.Encrypt, applied.Encrypt...)
	}
	r.Encrypt = r.Encrypted()
	return r, nil
}

// Certificates returns the certificates of the node by their names.
func (s Store) Certificates(r Record) map[string]*x509.Certificate {
	return s.Keys.Certificates(pki.Leaves(r.Names("")))
}

// Client returns the certificate and key of a client of the API server, and the
// authority of the API server.
func (s Store) Client(leaf string) (tls.Certificate, *x509.Certificate, error) {
	return s.client(leaf, pki.CA)
}

// EtcdClient returns the certificate and key of a client of etcd, and the
// authority of etcd.
func (s Store) EtcdClient() (tls.Certificate, *x509.Certificate, error) {
	return s.client(pki.EtcdClient, pki.EtcdCA)
}

// client returns a leaf with its key, and the authority of its server.
func (s Store) client(leaf, authority string) (tls.Certificate, *x509.Certificate, error) {
	text, err := s.dir.Root().ReadFile(pki.Files{Dir: KeysDirectory[1:]}.Leaf(leaf))
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	pair, err := tls.X509KeyPair(text, text)
	if err != nil {
		return tls.Certificate{}, nil, fmt.Errorf("read the key %s: %w", leaf, err)
	}

	authorities, err := s.Keys.Authorities()
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	return pair, authorities[authority].Certificate, nil
}
