package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	kubeconfig "k8s.io/client-go/tools/clientcmd/api"

	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/inplace"
	"github.com/loam-os/loam/hint"
)

// Directory is where the node keeps its identity, as the reference does.
const Directory = "/var/lib/gardener-node-agent"

// Names beneath the node's root directory.
const (
	credentialsDir = "var/lib/gardener-node-agent/credentials"
	kubeconfigName = credentialsDir + "/kubeconfig"
	tokenName      = credentialsDir + "/bootstrap-token"
	// keyName is the private key of the pending certificate request. With it, a
	// restarted agent continues its own request.
	keyName = credentialsDir + "/requested-key.pem"

	// secretName has the Secret's name from the Node's label and, on a second
	// line, the name that was configured at that time.
	secretName = "var/lib/gardener-node-agent/secret-name"

	kubeletDir       = "var/lib/kubelet"
	kubeletBootstrap = kubeletDir + "/kubeconfig-bootstrap"
	kubeletReal      = kubeletDir + "/kubeconfig-real"
	kubeletPKI       = kubeletDir + "/pki"
	kubeletCurrent   = kubeletPKI + "/kubelet-client-current.pem"
	cpuManagerState  = kubeletDir + "/cpu_manager_state"

	// recordName is the record of updates in place.
	recordName = "var/lib/loam/inplace.json"
)

// user is the only user, cluster and context of the kubeconfigs written here.
const user = "node-agent"

// credentialStore reads and writes the files of the node's identity.
type credentialStore struct{ dir *durable.Dir }

// newCredentialStore returns a store for one goroutine, because a durable.Dir
// has one writer.
func newCredentialStore(root *os.Root) credentialStore {
	return credentialStore{durable.New(root, nil)}
}

// credentials returns the saved credentials, false if they are absent or
// unreadable. Then the node requests new ones.
func (k credentialStore) credentials() (Credentials, bool) {
	text, err := k.dir.Root().ReadFile(kubeconfigName)
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
	c, err := credentials(who.ClientCertificateData, who.ClientKeyData, nil)
	return c, err == nil
}

func (k credentialStore) saveCredentials(c Config, who Credentials) error {
	text, err := clientcmd.Write(
		*c.kubeconfig(&kubeconfig.AuthInfo{
			ClientCertificateData: who.Certificate,
			ClientKeyData:         who.Key,
		}),
	)
	if err != nil {
		return fmt.Errorf("write the kubeconfig: %w", err)
	}
	if err := k.write(kubeconfigName, text, 0o600); err != nil {
		return err
	}
	return k.dir.Remove(keyName)
}

// key returns the key of the pending certificate request and creates it if
// absent.
func (k credentialStore) key() ([]byte, error) {
	text, err := k.dir.Root().ReadFile(keyName)
	if err == nil {
		if _, err := parseKey(text); err == nil {
			return text, nil
		}
	}

	text, err = newKey()
	if err != nil {
		return nil, err
	}

	return text, k.write(keyName, text, 0o600)
}

// token returns the bootstrap token, "" if absent. A node with credentials
// needs none.
func (k credentialStore) token() (string, error) {
	text, err := k.dir.Root().ReadFile(tokenName)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read the bootstrap token: %w", err)
	}
	return string(bytes.TrimSpace(text)), nil
}

// dropKey abandons the pending certificate request. The next one has a new key.
func (k credentialStore) dropKey() error { return k.dir.Remove(keyName) }

// secret returns the name of the Secret with the configuration: the last value
// of the Node's label, unless the configured name has changed since. Files of
// earlier versions have no second line.
func (k credentialStore) secret(configured string) string {
	text, err := k.dir.Root().ReadFile(secretName)
	name, instead, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	if err != nil || len(validation.IsDNS1123Subdomain(name)) > 0 ||
		instead != "" && instead != configured {
		return configured
	}
	return name
}

func (k credentialStore) saveSecret(name, configured string) error {
	if wrong := validation.IsDNS1123Subdomain(name); len(wrong) > 0 {
		return fmt.Errorf("%.100q is not the name of a Secret: %s", name, wrong[0])
	}
	return k.write(secretName, []byte(name+"\n"+configured+"\n"), 0o600)
}

// record returns the record of updates in place, false if absent.
func (k credentialStore) record() (r inplace.Record, ok bool, err error) {
	ok, err = durable.ReadJSON(k.dir.Root().FS(), recordName, &r)
	switch {
	case errors.Is(err, durable.ErrCorrupt):
		err = hint.With(fmt.Errorf("/%s is damaged: %w", recordName, err),
			"remove it once the node runs its configuration")
	case err != nil:
		err = fmt.Errorf("read the record of updates in place: %w", err)
	}

	if err != nil {
		return inplace.Record{}, false, err
	}
	return r, ok, nil
}

func (k credentialStore) saveRecord(r inplace.Record) error {
	if err := k.dir.MkdirAll(path.Dir(recordName)); err != nil {
		return err
	}
	return k.dir.WriteJSON(recordName, r, 0o600)
}

// removeJoinFiles removes the bootstrap token and, once the kubelet has joined,
// its bootstrap kubeconfig.
func (k credentialStore) removeJoinFiles() error {
	names := []string{tokenName}
	if _, err := k.dir.Root().Lstat(kubeletCurrent); err == nil {
		names = append(names, kubeletBootstrap)
	}

	var errs []error
	for _, name := range names {
		if _, err := k.dir.Root().Lstat(name); err == nil {
			errs = append(errs, k.dir.Remove(name))
		}
	}

	return errors.Join(errs...)
}

// writeKubeletBootstrap writes the kubelet's bootstrap kubeconfig, unless the
// kubelet has joined.
func (k credentialStore) writeKubeletBootstrap(c Config, token string) error {
	for _, name := range []string{kubeletReal, kubeletCurrent} {
		if _, err := k.dir.Root().Lstat(name); err == nil {
			return nil
		}
	}

	text, err := clientcmd.Write(*c.kubeconfig(&kubeconfig.AuthInfo{Token: token}))
	if err != nil {
		return fmt.Errorf("write the kubelet's bootstrap kubeconfig: %w", err)
	}
	if err := k.write(kubeletBootstrap, text, 0o600); err != nil {
		return fmt.Errorf("give the kubelet the bootstrap token: %w", err)
	}

	return nil
}

// prepareRejoin makes the kubelet, after its next restart, request a
// certificate with its present one. It can be repeated after an interruption at
// any point. A kubelet that rotates its certificate writes kubeletReal before
// it has a new one; its bootstrap kubeconfig stays then.
func (k credentialStore) prepareRejoin(c Config) error {
	certificate, err := k.kubeletCertificate()
	_, cut := k.dir.Root().Lstat(kubeletReal)
	switch {
	case cut != nil, errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	default:
		text, err := clientcmd.Write(
			*c.kubeconfig(&kubeconfig.AuthInfo{
				ClientCertificateData: certificate,
				ClientKeyData:         certificate,
			}),
		)
		if err != nil {
			return fmt.Errorf("write the kubelet's bootstrap kubeconfig: %w", err)
		}
		if err := k.write(kubeletBootstrap, text, 0o600); err != nil {
			return err
		}
	}

	if _, err := k.dir.Root().Lstat(kubeletBootstrap); err != nil {
		return fmt.Errorf("the kubelet has nothing to join with again: %w", err)
	}
	if err := k.dir.Remove(kubeletReal); err != nil {
		return err
	}

	return k.dir.RemoveAll(kubeletPKI)
}

// kubeletCertificate returns the kubelet's certificate with its key as PEM.
// kubeletCurrent is a link, which the kubelet makes absolute.
func (k credentialStore) kubeletCertificate() ([]byte, error) {
	name := kubeletCurrent
	if target, err := k.dir.Root().Readlink(name); err == nil {
		name = path.Join(kubeletPKI, path.Base(target))
	}
	text, err := k.dir.Root().ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("read the kubelet's certificate: %w", err)
	}
	return text, nil
}

func (k credentialStore) write(name string, text []byte, mode fs.FileMode) error {
	if err := k.dir.MkdirAll(path.Dir(name)); err != nil {
		return err
	}
	_, err := k.dir.WriteFile(name, text, mode)
	return err
}

func (c Config) kubeconfig(who *kubeconfig.AuthInfo) *kubeconfig.Config {
	config := kubeconfig.NewConfig()
	config.Clusters[user] = &kubeconfig.Cluster{Server: c.Server, CertificateAuthorityData: c.CA}
	config.AuthInfos[user] = who
	config.Contexts[user] = &kubeconfig.Context{Cluster: user, AuthInfo: user}
	config.CurrentContext = user

	return config
}

// rest returns the client configuration for the API server, with the
// credentials or, without a certificate, the token.
func (c Config) rest(who Credentials, token string) *rest.Config {
	return &rest.Config{
		Host:        c.Server,
		BearerToken: token,
		UserAgent:   "loam",
		TLSClientConfig: rest.TLSClientConfig{
			CAData:   c.CA,
			CertData: who.Certificate,
			KeyData:  who.Key,
		},
	}
}
