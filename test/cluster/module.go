package cluster

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"
)

// module is a Go module in the directory of its name, which pins programs of
// others. Each has a go.mod of its own, so that Loam's stays small. To update
// one, run `go get -tool PACKAGE@VERSION` in it; k8s.io/kubernetes requires its
// parts as v0.0.0, so the replace lines there name the version once more.
type module struct {
	name     string
	programs []program
}

type program struct{ name, pkg string }

var modules = []module{
	{"etcd", []program{{"etcd", "go.etcd.io/etcd/server/v3"}}},
	{"registry", []program{{"registry", "github.com/distribution/distribution/v3/cmd/registry"}}},
	{"kubernetes", []program{
		{"kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"},
		{"kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager"},
		{"kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler"},
		{"kubelet", "k8s.io/kubernetes/cmd/kubelet"},
	}},
}

// sourceDir is the directory of this package, in the checkout that the working
// directory is in.
func sourceDir(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOMOD: %w", err)
	}
	return filepath.Join(filepath.Dir(strings.TrimSpace(string(out))), "test/cluster"), nil
}

// entry is the name in the cache: a digest of all that decides what is built,
// but for the version of Go, since any that can build them will do.
func (m module) entry(source string) (string, error) {
	sum := sha256.New()
	for _, file := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join(source, m.name, file))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(sum, "%s %d\n%s", file, len(text), text)
	}
	fmt.Fprintln(sum, runtime.GOARCH, m.programs, buildFlags(""))
	return fmt.Sprintf("%s-%x", m.name, sum.Sum(nil)[:6]), nil
}

// build builds the programs of the module in dir into tmp.
func (m module) build(ctx context.Context, out io.Writer, dir, tmp string) error {
	version, err := kubernetesVersion(dir)
	if err != nil {
		return err
	}
	for _, p := range m.programs {
		start := time.Now()
		args := slices.Concat([]string{"build", "-o", filepath.Join(tmp, p.name)}, buildFlags(version), []string{p.pkg})
		cmd := exec.CommandContext(ctx, "go", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
		if text, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %w\n%s", p.pkg, err, text)
		}
		fmt.Fprintf(out, "%-44s %6.1f s\n", p.name, time.Since(start).Seconds())
	}
	return nil
}

// buildFlags are those of go build. A binary of Kubernetes that the linker does
// not tell its version takes itself for v0.0.0.
func buildFlags(version string) []string {
	return []string{"-trimpath", "-buildvcs=false", "-ldflags=-s -w -X k8s.io/component-base/version.gitVersion=" + version}
}

var requiresKubernetes = regexp.MustCompile(`(?m)^\s*k8s\.io/kubernetes (v\S+)`)

// kubernetesVersion is the version that the module in dir requires, if it does.
func kubernetesVersion(dir string) (string, error) {
	text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return "", err
	}
	if found := requiresKubernetes.FindSubmatch(text); found != nil {
		return string(found[1]), nil
	}
	return "", nil
}
