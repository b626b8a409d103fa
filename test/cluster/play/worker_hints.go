package main

import (
	"fmt"
	"io"
	"os/exec"
	"strings"

	"github.com/loam-os/loam/test/cluster/testcluster"
)

func (w *worker) hints(out io.Writer) { workerHints(out, w.fixture.URL()) }

func workerHints(out io.Writer, server string) {
	replace := strings.NewReplacer(
		"NODE", testcluster.Node, "KUBECONFIG_FILE", kubeconfig, "OSC", oscFile, "PUBLISH",
		strings.Join(publishCommand, " "),
		"IMAGE", testcluster.Registry+"/hello:v1", "CONSOLE", consoleFile, "GREETING", greeting,
		"CURL", curl, "API", server,
	)
	kube := withKubectl
	if _, err := exec.LookPath("kubectl"); err != nil {
		kube = withCurl
	}
	fmt.Fprint(out, replace.Replace(kube+theRest))
}

const withKubectl = `
The node is NODE. In another terminal, in this directory:

  export KUBECONFIG=$PWD/KUBECONFIG_FILE
  kubectl get nodes -o wide
  kubectl get events --field-selector involvedObject.name=NODE

Run a pod of an image in the cluster's own registry:
  kubectl run hello --image=IMAGE
  kubectl wait --for=condition=Ready pod/hello --timeout=3m
  kubectl logs hello
`

// curl authenticates as admin.
const curl = "curl -sS --cacert " + controlDir + "/ca.crt --cert " + controlDir +
	"/admin.crt --key " + controlDir + "/admin.key"

const withCurl = `
The node is NODE. kubectl is not installed here; KUBECONFIG_FILE is for one. In another terminal, in
this directory, without it:

  kube="CURL"
  $kube API/api/v1/nodes/NODE

Run a pod of an image in the cluster's own registry:
  $kube -H 'Content-Type: application/json' API/api/v1/namespaces/default/pods \
    -d '{"metadata": {"name": "hello"}, "spec": {"containers": [{"name": "hello", "image": "IMAGE"}]}}'
  $kube API/api/v1/namespaces/default/pods/hello/log
`

const theRest = `
Change the node: edit OSC, and publish it. It is there within a second; nothing restarts
but what the change concerns.
  sed -i 's/Hello from/Greetings from/' OSC
  PUBLISH
  build/play shell cat GREETING

Break it: with a flag that the kubelet does not know, the node goes back by itself within a minute, and says why.
  sed -i 's/ --cert-dir=/ --no-such-flag&/' OSC
  PUBLISH
  build/play shell loam status
  build/play shell loam history

Look: the console, and a root shell on the node (Ctrl-] leaves it).
  tail -f CONSOLE
  build/play shell

Ctrl-C here ends all of it.
`
