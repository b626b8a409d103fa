package local

import (
	"fmt"
	"os"
	"path"
	"strings"
	"sync"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/cri"
	"github.com/loam-os/loam/agent/plane"
	"github.com/loam-os/loam/agent/plane/bundle"
)

const (
	// cniTemplate is what containerd makes the configuration of the network
	// plugins of, as soon as the kubelet has told it the networks of the node's
	// pods (containerd docs/cri/config.md, conf_template).
	cniTemplate = "/etc/containerd/pods.conflist.template"
	// plugins are the network plugins of the image.
	plugins = "/usr/lib/cni"

	imagesUnit = "kubernetes-images.service"
)

// containerd is the containerd of the image, which is read once.
type containerd struct {
	image *os.Root

	// mu is for base, nil until it was read.
	mu   sync.Mutex
	base *cri.Base
}

// observe returns what the image has of containerd.
func (c *containerd) observe() (cri.Base, error) {
	c.mu.Lock()
	defer c.mu.Unlock()

	if c.base == nil {
		base, err := cri.Observe(c.image)
		if err != nil {
			return cri.Base{}, err
		}
		c.base = &base
	}
	return *c.base, nil
}

// withRuntime adds what runs pods: the configuration of containerd, the images of
// the bundle and the network.
func withRuntime(
	d config.Desired, r plane.Record, b bundle.Bundle, base cri.Base,
) (config.Desired, error) {
	sandbox, err := pause(b)
	if err != nil {
		return config.Desired{}, err
	}

	cni := map[string]any{"bin_dir": plugins}
	if r.Network == plane.NetworkRoutes {
		cni["conf_template"] = cniTemplate
		d.Files = append(d.Files, file(cniTemplate, podNetwork()))
	}

	text, err := cri.Render(cri.Config{
		SandboxImage: sandbox,
		CgroupDriver: "systemd",
		Plugins: []cri.Plugin{
			{Path: []string{"io.containerd.grpc.v1.cri", "cni"}, Values: cni},
		},
	}, base)
	if err != nil {
		return config.Desired{}, err
	}
	d.Files = append(d.Files, file(cri.ConfigFile, text))

	images := imagesText(b, path.Join(bundleDir(r), "images"))
	d.Units = append(d.Units,
		config.Unit{
			Name:      cri.Unit,
			DropIns:   []config.DropIn{{Name: cri.DropInName, Content: cri.DropIn}},
			FilePaths: []string{cri.ConfigFile},
		},
		config.Unit{Name: imagesUnit, Content: &images},
	)
	return d.Sorted(), nil
}

func file(path, text string) config.File {
	return config.File{Path: path, Mode: 0o644, Content: config.Text(text)}
}

// imagesText is the unit that gives containerd the images of a bundle. It looks at
// each start, because an operator or the kubelet may have removed them. Their files
// are on the disk before containerd knows of them: after a power cut it would take
// empty ones for whole.
func imagesText(b bundle.Bundle, layout string) string {
	var filters strings.Builder
	for _, image := range b.Images {
		fmt.Fprintf(&filters, " name==%s,target.digest==%s", image.Name, image.Digest)
	}

	const containerd = "ctr --namespace=k8s.io images"
	there := fmt.Sprintf("%s list --quiet%s | wc --lines | grep --quiet --line-regexp %d",
		containerd, filters.String(), len(b.Images))
	give := fmt.Sprintf("tar --create --directory=%s . | %s import --local --sync-fs -",
		layout, containerd)
	return fmt.Sprintf(`[Unit]
Description=Images of Kubernetes
Requires=containerd.service
After=containerd.service
Before=kubelet.service

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh -c '%s || %s'
TimeoutStartSec=5min

[Install]
WantedBy=multi-user.target
`, there, give)
}

// podNetwork is the template of the network of pods: each has an interface of its
// own, to which the node routes its address. What leaves the node has the node's
// address. Leases are in memory, so that no pod of an earlier boot holds one.
func podNetwork() string {
	const (
		ranges = `{{range $i, $r := .PodCIDRRanges}}{{if $i}}, {{end}}[{"subnet": "{{$r}}"}]{{end}}`
		routes = `{{range $i, $r := .Routes}}{{if $i}}, {{end}}{"dst": "{{$r}}"}{{end}}`
	)
	return `{
  "cniVersion": "1.0.0",
  "name": "pods",
  "plugins": [
    {
      "type": "ptp",
      "ipMasq": true,
      "ipMasqBackend": "nftables",
      "ipam": {
        "type": "host-local",
        "dataDir": "/run/cni/networks",
        "ranges": [` + ranges + `],
        "routes": [` + routes + `]
      }
    },
    {
      "type": "portmap",
      "backend": "nftables",
      "capabilities": {"portMappings": true}
    }
  ]
}
`
}
