package pki

import (
	"bytes"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"

	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/hint"
)

// ErrExists means that a node has the keys of a cluster already.
var ErrExists = errors.New("this node has the keys of a cluster already")

// ErrAbsent means that a node has no keys of a cluster.
var ErrAbsent = errors.New("this node has no keys of a cluster")

// Files below the directory of a [Store], beside NAME.pem of each leaf.
const (
	authoritiesDir = "authorities"
	serviceAccount = "authorities/service-account"
	encryptionKey  = "authorities/encryption.key"
	encryption     = "encryption.json"
)

// Modes of files with a private key, and without.
const (
	privateMode = 0o600
	publicMode  = 0o644
)

// Files names the files of a [Store] for the flags of programs. Dir is its
// directory as the program sees it.
type Files struct{ Dir string }

// Leaf returns the file with a leaf and its key.
func (f Files) Leaf(name string) string { return path.Join(f.Dir, name+".pem") }

// Authority returns the file with the certificate of an authority.
func (f Files) Authority(name string) string {
	return path.Join(f.Dir, authoritiesDir, name+".crt")
}

// AuthorityKey returns the file with the key of an authority.
func (f Files) AuthorityKey(name string) string {
	return path.Join(f.Dir, authoritiesDir, name+".key")
}

// ServiceAccount returns the file with the key that signs the tokens of service
// accounts.
func (f Files) ServiceAccount() string { return path.Join(f.Dir, serviceAccount+".key") }

// ServiceAccountPublic returns the file with the key that verifies them.
func (f Files) ServiceAccountPublic() string { return path.Join(f.Dir, serviceAccount+".pub") }

// Encryption returns the EncryptionConfiguration of the API server.
func (f Files) Encryption() string { return path.Join(f.Dir, encryption) }

// Store is the directory with the keys of a cluster on one node.
type Store struct {
	dir   *durable.Dir
	files Files
}

// NewStore returns the store in the directory name of dir.
func NewStore(dir *durable.Dir, name string) Store { return Store{dir, Files{name}} }

// Create makes the authorities and keys of a new cluster with that name. After a
// power cut there are all of them or none. The error is [ErrExists] if there
// are.
func (s Store) Create(cluster string, times Times) error {
	final := path.Join(s.files.Dir, authoritiesDir)
	if _, err := s.dir.Root().Lstat(final); err == nil {
		return ErrExists
	}

	made, err := newSecrets(cluster, times)
	if err != nil {
		return err
	}

	if err := s.dir.MkdirAll(s.files.Dir); err != nil {
		return err
	}
	fresh := final + ".new"
	if err := s.dir.RemoveAll(fresh); err != nil {
		return err
	}
	if err := s.write(fresh, made); err != nil {
		return fmt.Errorf("write the keys of the cluster: %w", err)
	}
	return s.dir.Move(fresh, final)
}

// file is a file of the directory of the authorities.
type file struct {
	name string
	text []byte
	mode fs.FileMode
}

// newSecrets makes what a cluster has once.
func newSecrets(cluster string, times Times) ([]file, error) {
	var made []file
	for _, name := range []string{CA, EtcdCA, FrontProxyCA} {
		cert, key, err := newAuthority(cluster+" "+name, times)
		if err != nil {
			return nil, err
		}
		made = append(made, file{name + ".crt", cert, publicMode}, file{name + ".key", key, privateMode})
	}

	account, err := newKey()
	if err != nil {
		return nil, err
	}
	text, err := keyText(account)
	if err != nil {
		return nil, err
	}
	verifier, err := publicText(account)
	if err != nil {
		return nil, err
	}

	var secret [32]byte // the key of secretbox (NaCl)
	_, _ = rand.Read(secret[:])

	return append(made,
		file{path.Base(serviceAccount) + ".key", text, privateMode},
		file{path.Base(serviceAccount) + ".pub", verifier, publicMode},
		file{path.Base(encryptionKey), []byte(base64.StdEncoding.EncodeToString(secret[:])), privateMode},
	), nil
}

// write makes the directory name with these files, and makes it durable.
func (s Store) write(name string, made []file) error {
	batch := s.dir.Batch()
	defer batch.Close()

	if err := batch.Mkdir(name); err != nil {
		return err
	}
	for _, f := range made {
		err := batch.File(path.Join(name, f.name), bytes.NewReader(f.text), f.mode)
		if err != nil {
			return err
		}
	}
	return batch.Sync()
}

// Authorities returns the authorities by their names. The error is [ErrAbsent]
// if the node has none.
func (s Store) Authorities() (map[string]Authority, error) {
	_, err := s.dir.Root().Lstat(path.Join(s.files.Dir, authoritiesDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrAbsent
	}

	found := map[string]Authority{}
	for _, name := range []string{CA, EtcdCA, FrontProxyCA} {
		authority, err := s.authority(name)
		if err != nil {
			return nil, hint.With(fmt.Errorf("read the authority %s: %w", name, err),
				"restore %s of this node: another authority would be another cluster", s.files.Dir)
		}
		found[name] = authority
	}
	return found, nil
}

func (s Store) authority(name string) (Authority, error) {
	cert, err := s.dir.Root().ReadFile(s.files.Authority(name))
	if err != nil {
		return Authority{}, err
	}
	key, err := s.dir.Root().ReadFile(s.files.AuthorityKey(name))
	if err != nil {
		return Authority{}, err
	}
	return parseAuthority(cert, key)
}

// Certificates returns the certificates of the leaves that are there, by their
// names. One that cannot be read, or whose key is another one, is not there.
func (s Store) Certificates(leaves []Leaf) map[string]*x509.Certificate {
	found := map[string]*x509.Certificate{}
	for _, leaf := range leaves {
		text, err := s.dir.Root().ReadFile(s.files.Leaf(leaf.Name))
		if err != nil {
			continue
		}
		if pair, err := tls.X509KeyPair(text, text); err == nil {
			found[leaf.Name] = pair.Leaf
		}
	}
	return found
}

// Renew issues the leaves that are due, writes the EncryptionConfiguration for
// these resources, and returns what was issued. It writes nothing if all is well.
func (s Store) Renew(leaves []Leaf, encrypt []string, times Times) ([]Renewal, error) {
	authorities, err := s.Authorities()
	if err != nil {
		return nil, err
	}
	certificates := map[string]*x509.Certificate{}
	for name, authority := range authorities {
		certificates[name] = authority.Certificate
	}

	due := Due(times.Now, s.Certificates(leaves), leaves, certificates)
	for _, renewal := range due {
		leaf := renewal.Leaf
		text, err := authorities[leaf.Authority].Issue(leaf, times)
		if err != nil {
			return nil, err
		}
		if _, err := s.dir.WriteFile(s.files.Leaf(leaf.Name), text, privateMode); err != nil {
			return nil, err
		}
	}

	return due, s.writeEncryption(encrypt)
}

// encryptionConfiguration is the EncryptionConfiguration of the API server (Kubernetes:
// "Encrypting Confidential Data at Rest").
type encryptionConfiguration struct {
	APIVersion string           `json:"apiVersion"`
	Kind       string           `json:"kind"`
	Resources  []encryptedGroup `json:"resources"`
}

// encryptedGroup are resources that are encrypted by the first provider, and can be read
// with each of them.
type encryptedGroup struct {
	Providers []map[string]any `json:"providers"`
	Resources []string         `json:"resources"`
}

// Encrypted returns the resources that the API server encrypts, none if there is no
// EncryptionConfiguration that can be read.
func (s Store) Encrypted() ([]string, error) {
	text, err := s.dir.Root().ReadFile(s.files.Encryption())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}

	var c encryptionConfiguration
	if err := json.Unmarshal(text, &c); err != nil {
		return nil, nil // The next replaces it.
	}
	var resources []string
	for _, group := range c.Resources {
		resources = append(resources, group.Resources...)
	}
	return resources, nil
}

// writeEncryption writes the EncryptionConfiguration. What is not encrypted can still be
// read, so that a resource can be added later.
func (s Store) writeEncryption(resources []string) error {
	secret, err := s.dir.Root().ReadFile(path.Join(s.files.Dir, encryptionKey))
	if err != nil {
		return fmt.Errorf("read the encryption key: %w", err)
	}

	type object = map[string]any
	key := object{"name": "key1", "secret": string(bytes.TrimSpace(secret))}
	text, err := json.Marshal(encryptionConfiguration{
		APIVersion: "apiserver.config.k8s.io/v1",
		Kind:       "EncryptionConfiguration",
		Resources: []encryptedGroup{{
			Providers: []object{
				{"secretbox": object{"keys": []object{key}}},
				{"identity": object{}},
			},
			Resources: resources,
		}},
	})
	if err != nil {
		return fmt.Errorf("encode the encryption configuration: %w", err)
	}

	_, err = s.dir.WriteFile(s.files.Encryption(), append(text, '\n'), privateMode)
	return err
}
