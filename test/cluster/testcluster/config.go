package testcluster

import (
	"fmt"
	"strings"

	"github.com/loam-os/loam/test/vm"
)

// Machine is the machine.yaml of a node that joins with a bootstrap token.
func (f *Fixture) Machine(token string) string { return f.MachineAt(f.GuestURL(), token) }

// MachineNamed is Machine of a node with that name.
func (f *Fixture) MachineNamed(name, token string) string {
	return machineText(f.Arch, name, f.GuestURL(), f.CA(), token)
}

// MachineAt is Machine for an API server that is reached at another URL.
func (f *Fixture) MachineAt(server, token string) string {
	return machineText(f.Arch, Node, server, f.CA(), token)
}

func machineText(arch, name, server, ca, token string) string {
	return fmt.Sprintf(`apiVersion: loam.dev/v1alpha1
kind: Machine
hostname: %s
debugShell: [%s]
source:
  cluster:
    server: %s
    secret: %s
    bootstrapToken: %s
    zone: zone-1
    kubernetesVersion: 1.37.2
    tokens: [{secret: %s, path: %s}]
    ca: |
%s
`, name, vm.ShellTTY(arch), server, Secret, token, Token, TokenPath, indent(ca, "      "))
}

// OSC is the configuration of a node with a kubelet. flags are more of the
// kubelet's, each after a space; files are more items of files.
func (f *Fixture) OSC(maxPods int, flags, files string) string {
	return oscText(f.Registry.GuestAddress(), f.CA(), maxPods, flags, files)
}

func oscText(registry, ca string, maxPods int, flags, files string) string {
	return fmt.Sprintf(`apiVersion: extensions.gardener.cloud/v1alpha1
kind: OperatingSystemConfig
spec:
  purpose: reconcile
  criConfig:
    name: containerd
    cgroupDriver: systemd
    containerd:
      sandboxImage: %[1]s/pause:v1
      registries:
      - upstream: %[1]s
        hosts:
        - {url: "http://%[2]s", capabilities: [pull, resolve]}
      plugins:
      - {path: [io.containerd.grpc.v1.cri, cni], values: {bin_dir: /usr/lib/cni}}
  units:
  - name: kubelet.service
    content: |
      [Unit]
      After=containerd.service
      [Service]
      Restart=always
      RestartSec=5
      ExecStart=/opt/bin/kubelet --config=/var/lib/kubelet/config/kubelet --bootstrap-kubeconfig=/var/lib/kubelet/kubeconfig-bootstrap --kubeconfig=/var/lib/kubelet/kubeconfig-real --cert-dir=/var/lib/kubelet/pki%[3]s
      [Install]
      WantedBy=multi-user.target
    filePaths: [/opt/bin/kubelet, /var/lib/kubelet/config/kubelet, /var/lib/kubelet/ca.crt]
  files:
  - path: /opt/bin/kubelet
    permissions: 0755
    content: {imageRef: {image: "%[1]s/kubelet:v1", filePathInImage: /kubelet}}
  - path: /var/lib/kubelet/ca.crt
    permissions: 0644
    content:
      inline:
        data: |
%[4]s
  - path: /var/lib/kubelet/config/kubelet
    permissions: 0600
    content:
      inline:
        data: |
          apiVersion: kubelet.config.k8s.io/v1beta1
          kind: KubeletConfiguration
          authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: /var/lib/kubelet/ca.crt}}
          authorization: {mode: Webhook}
          cgroupDriver: systemd
          containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
          failSwapOn: false
          maxPods: %[5]d
          nodeStatusUpdateFrequency: 10s
          rotateCertificates: true
  - path: /etc/cni/net.d/10-bridge.conflist
    permissions: 0644
    content:
      inline:
        data: |
          {"cniVersion": "1.0.0", "name": "pods", "plugins": [{"type": "bridge", "bridge": "cni0", "isGateway": true,
           "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.85.0.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}
%[6]s`, Registry, registry, flags, indent(ca, "          "), maxPods, files)
}

func indent(text, by string) string {
	return by + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n"+by)
}
