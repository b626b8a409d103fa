package cluster

import (
	"fmt"
	"net/http"

	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
)

// api is the part of an API server's API that the agent uses. The full
// clientset would triple the size of the binary.
type api struct {
	core, coordination rest.Interface
	// http is the client that core and coordination share.
	http *http.Client
}

// newAPI does not connect yet.
func newAPI(config *rest.Config) (*api, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		core.AddToScheme, coordination.AddToScheme, policy.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("register types: %w", err)
		}
	}

	meta.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	config = rest.CopyConfig(config)
	config.QPS = -1 // No rate limit: one node makes few requests.
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON

	config.Wrap(func(t http.RoundTripper) http.RoundTripper { return attempts{t} })
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", config.Host, err)
	}

	a := &api{http: client}
	for _, g := range []struct {
		version schema.GroupVersion
		path    string
		client  *rest.Interface
	}{
		{core.SchemeGroupVersion, "/api", &a.core},
		{coordination.SchemeGroupVersion, "/apis", &a.coordination},
	} {
		config.GroupVersion = &g.version
		config.APIPath = g.path
		*g.client, err = rest.RESTClientForConfigAndClient(config, client)
		if err != nil {
			return nil, fmt.Errorf("connect to %s: %w", config.Host, err)
		}
	}

	return a, nil
}

func (a *api) close() { a.http.CloseIdleConnections() }
