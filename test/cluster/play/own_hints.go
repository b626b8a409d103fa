package main

import (
	"fmt"
	"io"
	"os/exec"
	"strings"
)

func (o *own) hints(out io.Writer) { ownHints(out, o.api) }

func ownHints(out io.Writer, port int) {
	replace := strings.NewReplacer(
		"KUBECONFIG_FILE", kubeconfig, "NODE", ownNode, "IMAGE", ownImage, "CONSOLE", consoleFile,
		"SERVER", fmt.Sprintf("https://127.0.0.1:%d", port),
	)
	missing := ""
	if _, err := exec.LookPath("kubectl"); err != nil {
		missing = withoutKubectl
	}
	fmt.Fprint(out, replace.Replace(missing+toTry))
}

const withoutKubectl = `
kubectl is not installed here. Any of version 1.36 or later reaches the API server at SERVER with
KUBECONFIG_FILE; until then, the shell below shows the cluster, too.
`

const toTry = `
NODE is a cluster. In another terminal, in this directory:

  export KUBECONFIG=$PWD/KUBECONFIG_FILE
  kubectl get nodes -o wide
  kubectl get pods --all-namespaces

Run a web server, and reach it by its name:
  kubectl create deployment web --image=IMAGE --port=8080
  kubectl expose deployment web --port=80 --target-port=8080
  kubectl run client --image=IMAGE --restart=Never -- http://web
  kubectl logs --follow client
  kubectl port-forward service/web 8080:80

Change the cluster: the node applies it, restarts what it concerns, and goes back if that does not come up.
  kubectl edit configmap loam-cluster --namespace=kube-system
  build/play shell loam status

Look: the cluster, the console, and a root shell on the node (Ctrl-] leaves it).
  build/play shell loam cluster status
  tail -f CONSOLE
  build/play shell

Ctrl-C here ends all of it.
`
