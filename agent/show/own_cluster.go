package show

import (
	"crypto/x509"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/loam-os/loam/agent/plane"
	"github.com/loam-os/loam/agent/plane/pki"
	"github.com/loam-os/loam/agent/unit"
)

// OwnCluster is the cluster that a node makes by itself.
type OwnCluster struct {
	// Name, Kubernetes, Pods and Services are of the cluster record.
	Name       string   `json:"name"`
	Kubernetes string   `json:"kubernetes"`
	Pods       []string `json:"pods"`
	Services   []string `json:"services"`

	// API and Etcd are "ok", or why they are not; "" if that was not observed.
	API  string `json:"api,omitempty"`
	Etcd string `json:"etcd,omitempty"`

	// Units are the programs.
	Units []ClusterUnit `json:"units,omitempty"`

	// Certificates are in the order of their renewal.
	Certificates []Certificate `json:"certificates"`
}

// ClusterUnit is a program of a cluster.
type ClusterUnit struct {
	Name string `json:"name"`
	// State is the active and the finer state of systemd, as "active/running".
	State string `json:"state"`
}

// Certificate is a certificate of a cluster.
type Certificate struct {
	Name string `json:"name"`
	// Expires is when it ends, Renewal when the node issues the next one.
	Expires time.Time `json:"expires"`
	Renewal time.Time `json:"renewal"`
}

// OwnClusterOf returns the cluster of a record with these certificates.
func OwnClusterOf(r plane.Record, certificates map[string]*x509.Certificate) OwnCluster {
	c := OwnCluster{
		Name:         r.Name,
		Kubernetes:   r.Kubernetes,
		Pods:         r.Pods,
		Services:     r.Services,
		Certificates: []Certificate{},
	}
	for _, name := range slices.Sorted(maps.Keys(certificates)) {
		c.Certificates = append(c.Certificates, Certificate{
			Name:    name,
			Expires: certificates[name].NotAfter.UTC(),
			Renewal: pki.RenewalTime(certificates[name]).UTC(),
		})
	}
	slices.SortStableFunc(c.Certificates, func(a, b Certificate) int {
		return a.Renewal.Compare(b.Renewal)
	})
	return c
}

// Observe takes in whether etcd and the API server answer, and the states of
// units.
func (c *OwnCluster) Observe(etcd, api error, states []unit.State) {
	c.Etcd = healthOf(etcd)
	c.API = healthOf(api)
	for _, s := range states {
		c.Units = append(c.Units, ClusterUnit{s.Name, s.Active + "/" + s.Sub})
	}
}

func healthOf(err error) string {
	if err != nil {
		return err.Error()
	}
	return "ok"
}

// String returns the cluster as text.
func (c OwnCluster) String() string {
	var out strings.Builder
	row := func(name, text string) {
		if text != "" {
			fmt.Fprintf(&out, "%-12s %s\n", name, text)
		}
	}
	row("cluster", c.Name)
	row("kubernetes", c.Kubernetes)
	row("pods", strings.Join(c.Pods, ", "))
	row("services", strings.Join(c.Services, ", "))
	row("api", c.API)
	row("etcd", c.Etcd)

	for i, u := range c.Units {
		row(onlyFirst(i, "units"), fmt.Sprintf("%-32s %s", u.Name, u.State))
	}
	for i, cert := range c.Certificates {
		row(onlyFirst(i, "certificates"), fmt.Sprintf("%-32s renewed on %s, expires on %s",
			cert.Name, cert.Renewal.Format(time.DateOnly), cert.Expires.Format(time.DateOnly)))
	}
	return out.String()
}

// onlyFirst returns the title for the first of several rows.
func onlyFirst(i int, title string) string {
	if i > 0 {
		return ""
	}
	return title
}
