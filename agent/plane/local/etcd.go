package local

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"

	"github.com/loam-os/loam/agent/plane"
	"github.com/loam-os/loam/agent/plane/etcd"
)

// EtcdClient returns a client of the node's etcd with the present certificates.
func EtcdClient(store plane.Store) (etcd.Client, error) {
	pair, authority, err := store.EtcdClient()
	if err != nil {
		return etcd.Client{}, err
	}
	measured, err := store.FsyncP99()
	if err != nil {
		return etcd.Client{}, err
	}

	roots := x509.NewCertPool()
	roots.AddCert(authority)
	return etcd.Client{
		URL:        plane.EtcdURL,
		MetricsURL: plane.EtcdMetricsURL,
		Measured:   measured,
		HTTP: &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{
			RootCAs:      roots,
			Certificates: []tls.Certificate{pair},
		}}},
	}, nil
}
