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

// Facts are the parts of a configuration that change only on a drained node.
type Facts struct {
	// OS is an IMAGE_VERSION, Kubelet a version without its patch, such as
	// 1.36.
	OS      string `json:"os,omitempty"`
	Kubelet string `json:"kubelet,omitempty"`

	// Reserved are the fields of evictionHard and kubeReserved by which the
	// kubelet reserves resources, such as kubeReserved.cpu.
	Reserved map[string]string `json:"reserved,omitempty"`

	// CPUManagerPolicy is the kubelet's, "none" by default.
	CPUManagerPolicy string `json:"cpuManagerPolicy,omitempty"`

	// CertificateAuthorities and ServiceAccountKey are the starts of their last
	// rotations; zero if none.
	CertificateAuthorities time.Time `json:"certificateAuthorities,omitzero"`
	ServiceAccountKey      time.Time `json:"serviceAccountKey,omitzero"`
}

// reserved are the relevant fields by the map of KubeletConfiguration that has
// them.
var reserved = map[string][]string{
	"evictionHard": {
		"memory.available", "imagefs.available", "imagefs.inodesFree", "nodefs.available",
		"nodefs.inodesFree",
	},
	"kubeReserved": {"cpu", "memory", "ephemeral-storage", "pid"},
}

// FactsOf returns the facts of an update and of the text of KubeletConfig, nil
// if the configuration has none.
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

// minor returns a version such as v1.36.3 without its patch.
func minor(version string) string {
	parts := strings.Split(strings.TrimPrefix(version, "v"), ".")
	return strings.Join(parts[:min(2, len(parts))], ".")
}

// Changes are the kinds of changes between two Facts.
type Changes struct {
	OS, Kubelet, Reserved, CPUManagerPolicy, CertificateAuthorities, ServiceAccountKey bool
}

// Diff compares the facts last done with the wanted ones, on a node that runs
// image, an IMAGE_VERSION. A rotation that the configuration no longer mentions
// is not a change.
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

// String names the changes for display.
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
