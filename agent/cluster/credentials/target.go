package credentials

import (
	"net"
	"net/http"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	kubeconfig "k8s.io/client-go/tools/clientcmd/api"

	"github.com/loam-os/loam/hint/network"
)

// Target is an API server and the name that the node has there.
type Target struct {
	// Server is the URL of the API server, CA its certificate authorities as
	// PEM.
	Server string
	CA     []byte

	// CommonName is the common name of the node's certificate.
	CommonName string

	// Transport takes requests in place of connections to Server; nil for none.
	Transport http.RoundTripper
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

// checkProxy has a transport of client-go say why a proxy does not connect. With a
// dialer of its own, a configuration has a transport of its own.
func checkProxy(t http.RoundTripper) http.RoundTripper {
	inner := t
	for {
		wrapper, is := inner.(utilnet.RoundTripperWrapper)
		if !is {
			break
		}
		inner = wrapper.WrappedRoundTripper()
	}
	if transport, is := inner.(*http.Transport); is {
		transport.OnProxyConnectResponse = network.CheckProxy
	}
	return t
}

// REST returns the client configuration for the API server, with the
// credentials or, without a certificate, the token.
func (t Target) REST(who Credentials, token string) *rest.Config {
	wrap := checkProxy
	if t.Transport != nil {
		wrap = func(http.RoundTripper) http.RoundTripper { return t.Transport }
	}

	return &rest.Config{
		Host:          t.Server,
		BearerToken:   token,
		UserAgent:     "loam",
		Dial:          dialer.DialContext,
		WrapTransport: wrap,
		TLSClientConfig: rest.TLSClientConfig{
			CAData:   t.CA,
			CertData: who.Certificate,
			KeyData:  who.Key,
		},
	}
}
