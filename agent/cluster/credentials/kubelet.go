package credentials

import (
	"errors"
	"fmt"
	"io/fs"
	"path"

	"k8s.io/client-go/tools/clientcmd"
	kubeconfig "k8s.io/client-go/tools/clientcmd/api"
)

// KubeletDirectory is the kubelet's own directory.
const KubeletDirectory = "/" + kubeletDir

// Names of the kubelet's files beneath the node's root directory.
const (
	kubeletDir       = "var/lib/kubelet"
	kubeletBootstrap = kubeletDir + "/kubeconfig-bootstrap"
	kubeletReal      = kubeletDir + "/kubeconfig-real"
	kubeletPKI       = kubeletDir + "/pki"
	kubeletCurrent   = kubeletPKI + "/kubelet-client-current.pem"
)

// WriteKubeletBootstrap writes the kubelet's bootstrap kubeconfig, unless the
// kubelet has joined.
func (s Store) WriteKubeletBootstrap(t Target, token string) error {
	for _, name := range []string{kubeletReal, kubeletCurrent} {
		if _, err := s.dir.Root().Lstat(name); err == nil {
			return nil
		}
	}

	text, err := clientcmd.Write(*t.kubeconfig(&kubeconfig.AuthInfo{Token: token}))
	if err != nil {
		return fmt.Errorf("write the kubelet's bootstrap kubeconfig: %w", err)
	}
	if err := s.write(kubeletBootstrap, text, 0o600); err != nil {
		return fmt.Errorf("give the kubelet the bootstrap token: %w", err)
	}

	return nil
}

// PrepareRejoin makes the kubelet, after its next restart, request a
// certificate with its present one. It can be repeated after an interruption at
// any point. A kubelet that rotates its certificate writes kubeletReal before
// it has a new one; its bootstrap kubeconfig stays then.
func (s Store) PrepareRejoin(t Target) error {
	certificate, err := s.KubeletCertificate()
	_, cut := s.dir.Root().Lstat(kubeletReal)
	switch {
	case cut != nil, errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	default:
		text, err := clientcmd.Write(
			*t.kubeconfig(&kubeconfig.AuthInfo{
				ClientCertificateData: certificate,
				ClientKeyData:         certificate,
			}),
		)
		if err != nil {
			return fmt.Errorf("write the kubelet's bootstrap kubeconfig: %w", err)
		}
		if err := s.write(kubeletBootstrap, text, 0o600); err != nil {
			return err
		}
	}

	if _, err := s.dir.Root().Lstat(kubeletBootstrap); err != nil {
		return fmt.Errorf("the kubelet has nothing to join with again: %w", err)
	}
	if err := s.dir.Remove(kubeletReal); err != nil {
		return err
	}

	return s.dir.RemoveAll(kubeletPKI)
}

// KubeletCertificate returns the kubelet's certificate with its key as PEM.
// kubeletCurrent is a link, which the kubelet makes absolute.
func (s Store) KubeletCertificate() ([]byte, error) {
	name := kubeletCurrent
	if target, err := s.dir.Root().Readlink(name); err == nil {
		name = path.Join(kubeletPKI, path.Base(target))
	}
	text, err := s.dir.Root().ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("read the kubelet's certificate: %w", err)
	}
	return text, nil
}

// Kubelet returns the credentials of the kubelet, which renews them by itself. The
// error wraps [fs.ErrNotExist] if it has no certificate.
func (s Store) Kubelet() (Credentials, error) {
	text, err := s.KubeletCertificate()
	if err != nil {
		return Credentials{}, err
	}
	c, err := pair(text, text)
	if err != nil {
		return Credentials{}, fmt.Errorf("the kubelet's certificate: %w", err)
	}
	return c, nil
}
