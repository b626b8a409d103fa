package credentials

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"

	"k8s.io/client-go/tools/clientcmd"
	kubeconfig "k8s.io/client-go/tools/clientcmd/api"

	"github.com/loam-os/loam/agent/durable"
)

// Directory is where the node keeps its identity, as the reference does.
const Directory = "/var/lib/gardener-node-agent"

// Names beneath the node's root directory.
const (
	dir            = "var/lib/gardener-node-agent/credentials"
	kubeconfigName = dir + "/kubeconfig"
	tokenName      = dir + "/bootstrap-token"

	// keyName is the private key of the pending certificate request. With it, a
	// restarted agent continues its own request.
	keyName = dir + "/requested-key.pem"
)

// Files returns the files of a [Store], as absolute paths.
func Files() []string { return []string{"/" + kubeconfigName, "/" + tokenName, "/" + keyName} }

// Store is the files of a node's identity. It is for one goroutine, because a
// durable.Dir has one writer.
type Store struct{ dir *durable.Dir }

// Open returns the store of the node whose root directory is root.
func Open(root *os.Root) Store { return Of(durable.New(root, nil)) }

// Of returns the store below a root directory.
func Of(dir *durable.Dir) Store { return Store{dir} }

// Load returns the saved credentials, false if they are absent or
// unreadable. Then the node requests new ones.
func (s Store) Load() (Credentials, bool) {
	text, err := s.dir.Root().ReadFile(kubeconfigName)
	if err != nil {
		return Credentials{}, false
	}

	config, err := clientcmd.Load(text)
	if err != nil {
		return Credentials{}, false
	}

	current := config.Contexts[config.CurrentContext]
	if current == nil || config.AuthInfos[current.AuthInfo] == nil {
		return Credentials{}, false
	}

	who := config.AuthInfos[current.AuthInfo]
	c, err := pair(who.ClientCertificateData, who.ClientKeyData)
	return c, err == nil
}

// Save writes the credentials for t and ends the pending certificate request.
func (s Store) Save(t Target, who Credentials) error {
	text, err := clientcmd.Write(
		*t.kubeconfig(&kubeconfig.AuthInfo{
			ClientCertificateData: who.Certificate,
			ClientKeyData:         who.Key,
		}),
	)
	if err != nil {
		return fmt.Errorf("write the kubeconfig: %w", err)
	}
	if err := s.write(kubeconfigName, text, 0o600); err != nil {
		return err
	}
	return s.dir.Remove(keyName)
}

// key returns the key of the pending certificate request and creates it if
// absent.
func (s Store) key() ([]byte, error) {
	text, err := s.dir.Root().ReadFile(keyName)
	if err == nil {
		if _, err := parseKey(text); err == nil {
			return text, nil
		}
	}

	text, err = newKey()
	if err != nil {
		return nil, err
	}

	return text, s.write(keyName, text, 0o600)
}

// Token returns the bootstrap token, "" if absent. A node with credentials
// needs none.
func (s Store) Token() (string, error) {
	text, err := s.dir.Root().ReadFile(tokenName)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read the bootstrap token: %w", err)
	}
	return string(bytes.TrimSpace(text)), nil
}

// dropKey abandons the pending certificate request. The next one has a new key.
func (s Store) dropKey() error { return s.dir.Remove(keyName) }

// RemoveJoinFiles removes the bootstrap token and, once the kubelet has joined,
// its bootstrap kubeconfig.
func (s Store) RemoveJoinFiles() error {
	names := []string{tokenName}
	if _, err := s.dir.Root().Lstat(kubeletCurrent); err == nil {
		names = append(names, kubeletBootstrap)
	}

	var errs []error
	for _, name := range names {
		if _, err := s.dir.Root().Lstat(name); err == nil {
			errs = append(errs, s.dir.Remove(name))
		}
	}

	return errors.Join(errs...)
}

func (s Store) write(name string, text []byte, mode fs.FileMode) error {
	if err := s.dir.MkdirAll(path.Dir(name)); err != nil {
		return err
	}
	_, err := s.dir.WriteFile(name, text, mode)
	return err
}
