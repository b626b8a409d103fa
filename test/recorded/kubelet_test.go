package recorded

// kubeletCertificate is where a kubelet has its certificate, with its key.
const kubeletCertificate = "var/lib/kubelet/pki/kubelet-client-current.pem"

// kubelet returns the certificate of the kubelet of a Node, with its key.
func (w *fixture) kubelet(node string) string {
	w.Helper()
	certificate, key := w.pairOf(w.Kubeconfig(w.TB, "system:node:"+node, "system:nodes"))
	return string(certificate) + string(key)
}
