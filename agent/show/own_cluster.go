package show

import (
	"crypto/x509"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/loam-os/loam/agent/plane"
	"github.com/loam-os/loam/agent/plane/etcd"
	"github.com/loam-os/loam/agent/plane/pki"
	"github.com/loam-os/loam/agent/unit"
	"github.com/loam-os/loam/agent/volume"
	"github.com/loam-os/loam/hint"
)

// OwnCluster is the cluster that a node makes by itself.
type OwnCluster struct {
	// Name is the name in the cluster record.
	Name string `json:"name"`
	// Kubernetes is the version in the record.
	Kubernetes string `json:"kubernetes"`
	// Pods are the networks of pods in the record.
	Pods []string `json:"pods"`
	// Services are the networks of Services in the record.
	Services []string `json:"services"`

	// Problem is why the cluster is not as the record says, such as programs that are
	// being fetched; absent if it is, or while it starts.
	Problem string `json:"problem,omitempty"`

	// API is "ok", or why the API server is not; "" if that was not observed.
	API string `json:"api,omitempty"`
	// Etcd is "ok", or why etcd is not; "" if that was not observed.
	Etcd string `json:"etcd,omitempty"`

	// Storage is what etcd keeps; nil if that was not observed.
	Storage *EtcdStorage `json:"storage,omitempty"`

	// AddOns are the add-ons of the record; absent if they were not observed.
	AddOns []AddOn `json:"addOns,omitempty"`

	// Units are the programs.
	Units []ClusterUnit `json:"units,omitempty"`

	// Certificates are in the order of their renewal.
	Certificates []Certificate `json:"certificates"`
}

// EtcdStorage is the database of etcd, and the disk that it is on.
type EtcdStorage struct {
	// Version is the version of etcd.
	Version string `json:"version"`

	// Size is the size of the database's file, in bytes.
	Size int64 `json:"size"`
	// InUse is the part of it with data, in bytes.
	InUse int64 `json:"inUse"`
	// Quota is the size at which etcd refuses writes, in bytes.
	Quota int64 `json:"quota"`

	// RaftIndex counts the entries of the log.
	RaftIndex uint64 `json:"raftIndex"`

	// Alarms are NOSPACE or CORRUPT, or both; absent without an alarm.
	Alarms []string `json:"alarms,omitempty"`

	// FsyncP99 is the 99th percentile of the time of a sync since etcd has
	// started, in milliseconds; 0 if it is not known.
	FsyncP99 float64 `json:"fsyncP99"`

	// Heartbeat is the interval of etcd's heartbeat for its disk, in milliseconds.
	Heartbeat int64 `json:"heartbeat"`
	// Election is the timeout of its election for its disk, in milliseconds.
	Election int64 `json:"election"`

	// Reserved is the room on the disk that only etcd can use, in bytes; 0 on a disk with
	// little room.
	Reserved int64 `json:"reserved"`

	// Condition is the condition in a word, "ok" if all is well.
	Condition string `json:"condition"`
	// Problem is what is wrong; absent if all is well.
	Problem string `json:"problem,omitempty"`
	// Hint is what to do about it; absent if all is well.
	Hint string `json:"hint,omitempty"`

	// text has the sizes and the time for operators.
	text string
}

// EtcdStorageOf returns the storage of an etcd in that state, and with that many bytes
// reserved on the disk.
func EtcdStorageOf(s etcd.State, reserved int64) *EtcdStorage {
	storage := &EtcdStorage{
		Version:   s.Version,
		Size:      s.Size,
		InUse:     s.InUse,
		Quota:     s.Quota,
		RaftIndex: s.RaftIndex,
		FsyncP99:  float64(s.FsyncP99.Microseconds()) / 1000,
		Heartbeat: s.Timing().Heartbeat.Milliseconds(),
		Election:  s.Timing().Election.Milliseconds(),
		Reserved:  reserved,
		Condition: string(s.Condition()),
		text:      s.String() + ", no room reserved",
	}
	if reserved > 0 {
		storage.text = fmt.Sprintf("%s, %s reserved", s, volume.FormatSize(reserved))
	}
	for _, alarm := range s.Alarms {
		storage.Alarms = append(storage.Alarms, alarm.Kind)
	}
	if problem := s.Problem(); problem != nil {
		storage.Problem = problem.Error()
		storage.Hint = hint.Of(problem)
	}
	return storage
}

// AddOn is an add-on of a cluster.
type AddOn struct {
	// Name is its name in the record.
	Name string `json:"name"`
	// State is "ok", or why the add-on is not as it should be.
	State string `json:"state"`
}

// ClusterUnit is a program of a cluster.
type ClusterUnit struct {
	// Name is the name of its unit.
	Name string `json:"name"`
	// State is the active and the finer state of systemd, as "active/running".
	State string `json:"state"`
}

// Certificate is a certificate of a cluster.
type Certificate struct {
	// Name is what it is for.
	Name string `json:"name"`
	// Expires is when it ends.
	Expires time.Time `json:"expires"`
	// Renewal is when the node issues the next one.
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

// Observe takes in whether etcd and the API server answer, the storage of etcd,
// nil if it is not known, and the states of units.
func (c *OwnCluster) Observe(
	etcdHealth, apiHealth error, storage *EtcdStorage, states []unit.State,
) {
	c.Etcd = healthOf(etcdHealth)
	c.API = healthOf(apiHealth)
	c.Storage = storage
	if etcdHealth != nil && storage != nil && storage.Problem != "" {
		c.Etcd = storage.Problem // Its health has only a status of HTTP.
	}

	for _, s := range states {
		c.Units = append(c.Units, ClusterUnit{s.Name, s.Active + "/" + s.Sub})
	}
}

// ObserveAddOn takes in how an add-on is.
func (c *OwnCluster) ObserveAddOn(name string, health error) {
	c.AddOns = append(c.AddOns, AddOn{name, healthOf(health)})
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
	if c.Problem != "" {
		row("", "not ready: "+c.Problem)
	}
	row("pods", strings.Join(c.Pods, ", "))
	row("services", strings.Join(c.Services, ", "))
	row("api", c.API)
	row("etcd", c.etcd())
	if c.Storage != nil && c.Storage.Problem != "" {
		row("", c.Storage.Problem)
		if c.Storage.Hint != "" {
			row("", "hint: "+c.Storage.Hint)
		}
	}

	for i, a := range c.AddOns {
		row(onlyFirst(i, "add-ons"), fmt.Sprintf("%-32s %s", a.Name, a.State))
	}
	for i, u := range c.Units {
		row(onlyFirst(i, "units"), fmt.Sprintf("%-32s %s", u.Name, u.State))
	}
	for i, cert := range c.Certificates {
		row(onlyFirst(i, "certificates"), fmt.Sprintf("%-32s renewed on %s, expires on %s",
			cert.Name, cert.Renewal.Format(time.DateOnly), cert.Expires.Format(time.DateOnly)))
	}
	return out.String()
}

// etcd returns the health of etcd and its storage.
func (c OwnCluster) etcd() string {
	switch {
	case c.Storage == nil:
		return c.Etcd
	case c.Storage.Problem != "":
		return c.Storage.Condition + ", " + c.Storage.text
	}
	return c.Etcd + ", " + c.Storage.text
}

// onlyFirst returns the title for the first of several rows.
func onlyFirst(i int, title string) string {
	if i > 0 {
		return ""
	}
	return title
}
