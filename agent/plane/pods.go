package plane

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/loam-os/loam/agent/config"
)

// manifests is the directory with the static pods of the kubelet.
const manifests = configDir + "/manifests"

// Images are the container images of the programs by their names.
type Images map[string]string

// RenderPods is [Render] with the control plane as static pods of the kubelet, as
// kubeadm has it. The flags are the same.
func RenderPods(r Record, m Member, images Images) config.Desired {
	all := files(r, m)
	for i, f := range all {
		if f.Path == kubeletConfigFile {
			c := kubeletConfig(r, m)
			c["staticPodPath"] = manifests
			all[i] = jsonFile(kubeletConfigFile, c)
		}
	}

	probed := func(port int, scheme string) probe { return probe{port, scheme} }
	for _, p := range []staticPod{
		{etcd, etcdFlags(r, m), probed(2381, "HTTP"), []string{etcdData}},
		{apiServer, apiServerFlags(r, m), probed(apiPort, "HTTPS"), []string{path.Dir(auditLog)}},
		{controllerManager, controllerManagerFlags(r, m), probed(10257, "HTTPS"), []string{flexVolumes}},
		{scheduler, schedulerFlags(m), probed(10259, "HTTPS"), nil},
	} {
		all = append(all, p.file(m, images[p.name]))
	}

	return config.Desired{
		Files: all,
		Units: []config.Unit{kubeletUnit(m), {Name: "containerd.service"}},
	}.Sorted()
}

// staticPod is a program of the control plane as a static pod.
type staticPod struct {
	name  string
	flags flags
	probe probe
	// writes are the directories of the node that the program writes.
	writes []string
}

// probe is where a program says that it is alive and ready.
type probe struct {
	port   int
	scheme string
}

func (p probe) at(path string, period int) object {
	return object{
		"httpGet": object{
			"host": "127.0.0.1", "port": p.port, "scheme": p.scheme, "path": path,
		},
		"periodSeconds":    period,
		"timeoutSeconds":   15,
		"failureThreshold": 8,
	}
}

// file returns the manifest.
func (p staticPod) file(m Member, image string) config.File {
	mounts, volumes := p.volumes(m)
	alive := "/livez"
	if p.name == controllerManager { // It has no other.
		alive = "/healthz"
	}

	return jsonFile(path.Join(manifests, p.name+".json"), object{
		"apiVersion": "v1",
		"kind":       "Pod",
		"metadata": object{
			"name":      p.name,
			"namespace": "kube-system",
			"labels":    object{"component": p.name, "tier": "control-plane"},
		},
		"spec": object{
			"hostNetwork":       true,
			"priorityClassName": "system-node-critical",
			"securityContext":   object{"seccompProfile": object{"type": "RuntimeDefault"}},
			"containers": []object{{
				"name":          p.name,
				"image":         image,
				"command":       append([]string{p.name}, p.flags.args()...),
				"livenessProbe": p.probe.at(alive, 10),
				"startupProbe":  p.probe.at(alive, 10),
				"volumeMounts":  mounts,
			}},
			"volumes": volumes,
		},
	})
}

// volumes returns what the pod sees of the node: the directory of the keys and
// the files that its flags name to be read, and the directories that it writes.
func (p staticPod) volumes(m Member) (mounts, volumes []object) {
	reads := map[string]string{}
	for _, value := range p.flags {
		switch {
		case strings.HasPrefix(value, m.Keys.Dir+"/"):
			reads[m.Keys.Dir] = "Directory"
		case strings.HasPrefix(value, configDir+"/"):
			reads[value] = "File"
		}
	}

	add := func(at, kind string, readOnly bool) {
		name := fmt.Sprintf("volume-%d", len(volumes))
		mounts = append(mounts, object{"name": name, "mountPath": at, "readOnly": readOnly})
		volumes = append(volumes,
			object{"name": name, "hostPath": object{"path": at, "type": kind}})
	}
	for _, at := range slices.Sorted(maps.Keys(reads)) {
		add(at, reads[at], true)
	}
	for _, at := range p.writes {
		add(at, "DirectoryOrCreate", false)
	}
	return mounts, volumes
}
