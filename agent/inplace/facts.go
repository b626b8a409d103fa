package inplace

import (
	"cmp"
	"fmt"
	"maps"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/loam-os/loam/agent/config"
)

// KubeletConfig is the file of the kubelet's configuration.
const KubeletConfig = "/var/lib/kubelet/config/kubelet"

// Facts are what a configuration says of all that needs a drained node to
// change.
type Facts struct {
	// OS is an IMAGE_VERSION, Kubelet a version without its patch, such as
	// 1.36.
	OS      string `json:"os,omitempty"`
	Kubelet string `json:"kubelet,omitempty"`

	// Reserved is what the kubelet keeps from pods: those fields of
	// evictionHard and kubeReserved that count, such as kubeReserved.cpu.
	Reserved map[string]string `json:"reserved,omitempty"`

	// CPUManagerPolicy is the kubelet's, "none" by default.
	CPUManagerPolicy string `json:"cpuManagerPolicy,omitempty"`

	// CertificateAuthorities and ServiceAccountKey are when the rotation of
	// each began last; zero if none did.
	CertificateAuthorities time.Time `json:"certificateAuthorities,omitzero"`
	ServiceAccountKey      time.Time `json:"serviceAccountKey,omitzero"`
}

// reserved are the fields that count, by the map of KubeletConfiguration that
// they are in.
var reserved = map[string][]string{
	"evictionHard": {
		"memory.available", "imagefs.available", "imagefs.inodesFree", "nodefs.available",
		"nodefs.inodesFree",
	},
	"kubeReserved": {"cpu", "memory", "ephemeral-storage", "pid"},
}

// FactsOf takes them from what a configuration asks for, and from the text of
// its KubeletConfig, nil if it has none.
func FactsOf(u config.Update, kubelet []byte) (Facts, error) {
	f := Facts{
		OS:                     u.OSVersion,
		Kubelet:                minor(u.Kubelet),
		CPUManagerPolicy:       "none",
		CertificateAuthorities: u.CertificateAuthorities,
		ServiceAccountKey:      u.ServiceAccountKey,
	}

	var read struct {
		CPUManagerPolicy string            `json:"cpuManagerPolicy"`
		EvictionHard     map[string]string `json:"evictionHard"`
		KubeReserved     map[string]string `json:"kubeReserved"`
	}
	if err := yaml.Unmarshal(kubelet, &read); err != nil {
		return Facts{}, fmt.Errorf("read %s: %w", KubeletConfig, err)
	}

	f.CPUManagerPolicy = cmp.Or(read.CPUManagerPolicy, f.CPUManagerPolicy)
	for field, values := range map[string]map[string]string{
		"evictionHard": read.EvictionHard,
		"kubeReserved": read.KubeReserved,
	} {
		for _, name := range reserved[field] {
			if value, ok := values[name]; ok {
				if f.Reserved == nil {
					f.Reserved = map[string]string{}
				}
				f.Reserved[field+"."+name] = value
			}
		}
	}

	return f, nil
}

// minor is a version such as v1.36.3 without its patch.
func minor(version string) string {
	parts := strings.Split(strings.TrimPrefix(version, "v"), ".")
	return strings.Join(parts[:min(2, len(parts))], ".")
}

// Changes are what is to be done.
type Changes struct {
	OS, Kubelet, Reserved, CPUManagerPolicy, CertificateAuthorities, ServiceAccountKey bool
}

// Diff is what lies between what was done last and what is wanted, on a node
// that runs image, an IMAGE_VERSION. A configuration that says nothing of a
// rotation any more asks for none.
func Diff(done, want Facts, image string) Changes {
	return Changes{
		OS:                     want.OS != "" && want.OS != image,
		Kubelet:                done.Kubelet != want.Kubelet,
		Reserved:               !maps.Equal(done.Reserved, want.Reserved),
		CPUManagerPolicy:       done.CPUManagerPolicy != want.CPUManagerPolicy,
		CertificateAuthorities: isRotated(done.CertificateAuthorities, want.CertificateAuthorities),
		ServiceAccountKey:      isRotated(done.ServiceAccountKey, want.ServiceAccountKey),
	}
}

func isRotated(done, want time.Time) bool { return !want.IsZero() && !want.Equal(done) }

// Any reports whether there is a change.
func (c Changes) Any() bool { return c != Changes{} }

// String names them for people.
func (c Changes) String() string {
	var names []string
	for _, change := range []struct {
		is   bool
		name string
	}{
		{c.OS, "the operating system"}, {c.Kubelet, "kubelet's version"},
		{c.Reserved, "what kubelet reserves"},
		{c.CPUManagerPolicy, "kubelet's CPU manager policy"},
		{c.CertificateAuthorities, "certificate authorities"},
		{c.ServiceAccountKey, "the service account key"},
	} {
		if change.is {
			names = append(names, change.name)
		}
	}

	return strings.Join(names, ", ")
}
