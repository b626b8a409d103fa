package credentials

import (
	"net"
	"time"

	"k8s.io/client-go/rest"
	kubeconfig "k8s.io/client-go/tools/clientcmd/api"
)

// Target is an API server and the name that the node has there.
type Target struct {
	// Server is the URL of the API server, CA its certificate authorities as
	// PEM.
	Server string
	CA     []byte

	// CommonName is the common name of the node's certificate.
	CommonName string
}

// user is the only user, cluster and context of the kubeconfigs written here.
const user = "node-agent"

func (t Target) kubeconfig(who *kubeconfig.AuthInfo) *kubeconfig.Config {
	config := kubeconfig.NewConfig()
	config.Clusters[user] = &kubeconfig.Cluster{
		Server:                   t.Server,
		CertificateAuthorityData: t.CA,
	}
	config.AuthInfos[user] = who
	config.Contexts[user] = &kubeconfig.Context{Cluster: user, AuthInfo: user}
	config.CurrentContext = user

	return config
}

// dialer gives up earlier than client-go would, so that a name server or an
// address that is silent is named before an operator has gone.
var dialer = &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}

// REST returns the client configuration for the API server, with the
// credentials or, without a certificate, the token.
func (t Target) REST(who Credentials, token string) *rest.Config {
	return &rest.Config{
		Host:        t.Server,
		BearerToken: token,
		UserAgent:   "loam",
		Dial:        dialer.DialContext,
		TLSClientConfig: rest.TLSClientConfig{
			CAData:   t.CA,
			CertData: who.Certificate,
			KeyData:  who.Key,
		},
	}
}
