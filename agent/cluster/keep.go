package cluster

import (
	"bytes"
	"encoding/json"
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
)

// Directory is where the node keeps who it is, as the reference does.
const Directory = "/var/lib/gardener-node-agent"

// Names beneath the node's root directory.
const (
	credentialsDir = "var/lib/gardener-node-agent/credentials"
	kubeconfigName = credentialsDir + "/kubeconfig"
	tokenName      = credentialsDir + "/bootstrap-token"
	// keyName is the key of a certificate that is asked for: with it, an agent
	// that was stopped takes up its own request again.
	keyName = credentialsDir + "/requested-key.pem"

	// secretName has the name of the Secret that the Node's label said last
	// and, on a second line, the one that was configured then.
	secretName = "var/lib/gardener-node-agent/secret-name"

	kubeletDir       = "var/lib/kubelet"
	kubeletBootstrap = kubeletDir + "/kubeconfig-bootstrap"
	kubeletReal      = kubeletDir + "/kubeconfig-real"
	kubeletPKI       = kubeletDir + "/pki"
	kubeletCurrent   = kubeletPKI + "/kubelet-client-current.pem"
	cpuManagerState  = kubeletDir + "/cpu_manager_state"

	// recordName is what the node remembers of updates in place.
	recordName = "var/lib/loam/inplace.json"
)

// user is the only user, cluster and context of the kubeconfigs written here.
const user = "node-agent"

// keep is the files by which the node knows who it is.
type keep struct{ dir *durable.Dir }

// keepOf is for one goroutine: a durable.Dir has one writer.
func keepOf(root *os.Root) keep { return keep{durable.New(root, nil)} }

func (c *Cluster) keep() keep { return keepOf(c.Root) }

// credentials are those of an earlier run; false if there are none, or none
// that can be read: then the node asks for others.
func (k keep) credentials() (Credentials, bool) {
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

func (k keep) save(c Config, who Credentials) error {
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

// key is that of the certificate asked for, made if there is none.
func (k keep) key() ([]byte, error) {
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

// token is the bootstrap token, "" if there is none. Who has credentials needs
// none.
func (k keep) token() (string, error) {
	text, err := k.dir.Root().ReadFile(tokenName)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read the bootstrap token: %w", err)
	}
	return string(bytes.TrimSpace(text)), nil
}

// forget gives up a request for a certificate: the next is another.
func (k keep) forget() error { return k.dir.Remove(keyName) }

// secret is the name of the Secret with the configuration: what the Node's
// label said last, unless another is configured than was then. Files of before
// have no second line.
func (k keep) secret(configured string) string {
	text, err := k.dir.Root().ReadFile(secretName)
	name, instead, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	if err != nil || len(validation.IsDNS1123Subdomain(name)) > 0 ||
		instead != "" && instead != configured {
		return configured
	}
	return name
}

func (k keep) saveSecret(name, configured string) error {
	if wrong := validation.IsDNS1123Subdomain(name); len(wrong) > 0 {
		return fmt.Errorf("%.100q is not the name of a Secret: %s", name, wrong[0])
	}
	return k.write(secretName, []byte(name+"\n"+configured+"\n"), 0o600)
}

// record is what the node remembers of updates in place; false if nothing.
func (k keep) record() (r inplace.Record, ok bool, err error) {
	text, err := k.dir.Root().ReadFile(recordName)
	if errors.Is(err, fs.ErrNotExist) {
		return r, false, nil
	}

	if err != nil {
		return r, false, fmt.Errorf("read what the node remembers of updates in place: %w", err)
	}

	if err := json.Unmarshal(text, &r); err != nil {
		return inplace.Record{}, false, fmt.Errorf(
			"/%s is damaged: %w; hint: once the node is what its configuration says, remove it",
			recordName, err,
		)
	}

	return r, true, nil
}

func (k keep) saveRecord(r inplace.Record) error {
	text, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("write /%s: %w", recordName, err)
	}
	return k.write(recordName, append(text, '\n'), 0o600)
}

// joined removes what is good for joining only; the kubelet's when that has
// joined.
func (k keep) joined() error {
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

// kubelet gives the kubelet what it needs to join, unless it has joined.
func (k keep) kubelet(c Config, token string) error {
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

// rejoin has the kubelet, once it is restarted, ask for a certificate with the
// one it has. Cut off anywhere, it can be done again. A kubelet that rotates
// its certificate writes kubeletReal before it has one: what it asks with stays
// then.
func (k keep) rejoin(c Config) error {
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

// kubeletCertificate is the kubelet's, with its key, as PEM. Its name is a
// link, which the kubelet makes absolute.
func (k keep) kubeletCertificate() ([]byte, error) {
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

func (k keep) write(name string, text []byte, mode fs.FileMode) error {
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

// rest is how to reach the API server as who has the credentials or, without
// a certificate, the token.
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
