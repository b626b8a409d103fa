// Package upstream lays out what projects publish of Kubernetes, from the programs
// that package cluster builds, and makes a Kubernetes bundle of it for tests.
//
//	cluster.Build --> programs --Write--> directory --Bundle--> pack and index
//	                                                            in the cache
package upstream

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"

	"github.com/loam-os/loam/image/bundle"
	"github.com/loam-os/loam/image/cache"
	"github.com/loam-os/loam/image/meter"
	"github.com/loam-os/loam/image/publish/kubernetes"
	"github.com/loam-os/loam/test/cluster"
	"github.com/loam-os/loam/test/program"
)

// Names of the images: those of kubeadm of the same version of Kubernetes.
const (
	PauseImage   = "registry.k8s.io/pause:3.10.2"
	CoreDNSImage = "registry.k8s.io/coredns/coredns:v1.14.6"
)

// Write writes into a new directory what `loamctl kubernetes bundle` takes: the
// programs of a node, and an OCI layout with the images of the others. programs
// has the paths that cluster.Build returns.
func Write(dir string, programs map[string]string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, name := range bundle.KubernetesPrograms() {
		if err := linkFile(programs[name], filepath.Join(dir, name)); err != nil {
			return err
		}
	}

	images := map[string]cluster.Image{}
	for name, full := range map[string]string{"coredns": CoreDNSImage, "pause": PauseImage} {
		content, err := os.ReadFile(programs[name])
		if err != nil {
			return err
		}
		images[full] = cluster.Image{
			Layers:     []cluster.Layer{{name: cluster.File{Content: content, Mode: 0o755}}},
			Entrypoint: []string{"/" + name},
			Plain:      true,
		}
	}
	return cluster.WriteLayout(filepath.Join(dir, "images"), images)
}

// linkFile links a file, or copies it on another file system.
func linkFile(from, to string) error {
	if os.Link(from, to) == nil {
		return nil
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()

	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		out.Close()
		return err
	}
	return out.Close()
}

// Make makes the bundle in the directory work, which must be empty.
func Make(ctx context.Context, work string, programs map[string]string) (kubernetes.Bundle, error) {
	version, err := cluster.KubernetesVersion(ctx)
	if err != nil {
		return kubernetes.Bundle{}, err
	}
	from := filepath.Join(work, "upstream")
	if err := Write(from, programs); err != nil {
		return kubernetes.Bundle{}, err
	}
	return kubernetes.Make(ctx, kubernetes.Params{
		Version: version,
		Arch:    runtime.GOARCH,
		From:    from,
		Work:    work,
		Report:  meter.None,
	})
}

// indexFile is the index of a bundle in the cache, beside its pack.
const indexFile = "index.json"

// Bundle returns the bundle, which it makes if the cache does not have it.
func Bundle(ctx context.Context, programs map[string]string) (kubernetes.Bundle, error) {
	dir, err := program.CacheDir()
	if err != nil {
		return kubernetes.Bundle{}, err
	}
	name, err := entry(ctx, programs)
	if err != nil {
		return kubernetes.Bundle{}, err
	}

	path, err := cache.Ensure(ctx, dir, name, func(tmp string) error {
		work, err := os.MkdirTemp(dir, "bundle-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(work)

		b, err := Make(ctx, work, programs)
		if err != nil {
			return err
		}
		text, err := b.Index.Encode()
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(tmp, indexFile), text, 0o644); err != nil {
			return err
		}
		return os.Rename(b.Pack, filepath.Join(tmp, b.Index.Pack.Name))
	})
	if err != nil {
		return kubernetes.Bundle{}, err
	}

	text, err := os.ReadFile(filepath.Join(path, indexFile))
	if err != nil {
		return kubernetes.Bundle{}, err
	}
	ix, err := bundle.ParseKubernetes(text)
	return kubernetes.Bundle{Index: ix, Pack: filepath.Join(path, ix.Pack.Name)}, err
}

// entry returns the name of the bundle in the cache, which has a digest of the
// programs, whose paths have one, and of the code that packs.
func entry(ctx context.Context, programs map[string]string) (string, error) {
	root, err := program.Root(ctx)
	if err != nil {
		return "", err
	}

	sum := sha256.New()
	for _, name := range append(bundle.KubernetesPrograms(), bundle.KubernetesImages()...) {
		fmt.Fprintln(sum, name, programs[name])
	}
	for _, dir := range []string{"image/bundle", "image/publish/kubernetes", "test/cluster/upstream"} {
		files, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
		if err != nil {
			return "", err
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return "", err
			}
			fmt.Fprintf(sum, "%s/%s %d\n%s", dir, filepath.Base(file), len(text), text)
		}
	}
	return "kubernetes-bundle-" + hex.EncodeToString(sum.Sum(nil)[:6]), nil
}
