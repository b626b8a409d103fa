package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/loam-os/loam/cmd/progress"
	"github.com/loam-os/loam/image"
	"github.com/loam-os/loam/image/meter"
	"github.com/loam-os/loam/image/publish"
	"github.com/loam-os/loam/image/publish/kubernetes"
)

func kubernetesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "kubernetes",
		Short: "Publish Kubernetes for clusters that nodes make by themselves",
	}
	cmd.AddCommand(kubernetesBundleCommand())
	return cmd
}

// kubernetesOptions are the flags of kubernetes bundle.
type kubernetesOptions struct {
	repositoryOptions
	from, arch string
}

func kubernetesBundleCommand() *cobra.Command {
	var o kubernetesOptions
	cmd := &cobra.Command{
		Use:               "bundle VERSION",
		ValidArgsFunction: cobra.NoFileCompletions,
		Short:             "Publish a version of Kubernetes, signed, beside the releases of the system",
		Long: `bundle adds the programs and images of one version of Kubernetes to a repository, which
'loamctl bundle' fills with releases of the system: in the same chunks, signed by the same
keys, for the same web servers, registries and USB drives.

--from is a directory, in which the files may be at any depth:
  etcd and etcdutl, as the project publishes them
  kube-apiserver, kube-controller-manager, kube-scheduler, kube-proxy and kubelet of VERSION, as
  in kubernetes-server-linux-ARCH.tar.gz
  an OCI layout, or archives of one, with the images pause and coredns
It may be an artifact of a registry, too, which has the same as files (oras push).

Files are not changed. Programs and images for another architecture, or programs of another
version, are refused. The same files make the same bundle: publishing it again repairs a
repository in which it is damaged.

` + signerHelp,
		Example: `  loamctl kubernetes bundle 1.37.2 --from kubernetes-1.37.2 --repository updates --keys keys
  loamctl kubernetes bundle 1.37.2 --arch arm64 --from oci://registry.example/plant/kubernetes:1.37.2-arm64 --repository updates --keys keys`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.check(); err != nil {
				return err
			}
			bar := progress.New(cmd.ErrOrStderr())
			defer bar.Close()
			return o.add(cmd.Context(), cmd.OutOrStdout(), func() error {
				return o.publish(cmd.Context(), cmd.OutOrStdout(), args[0], time.Now(), bar.Update)
			})
		},
	}

	f := cmd.Flags()
	f.StringVar(&o.from, "from", "", "directory, or oci://HOST/NAME:TAG, with programs and images: "+
		"`DIR` (required)")
	f.StringVar(&o.arch, "arch", "amd64",
		"`ARCH` of the nodes: "+strings.Join(image.Architectures(), " or "))
	o.flags(f)
	o.require(cmd)
	_ = cmd.MarkFlagRequired("from") // It is a flag, see above.
	return cmd
}

// publish makes the bundle and adds it to the repository. What cannot be made
// leaves no new repository behind.
func (o kubernetesOptions) publish(
	ctx context.Context, out io.Writer, version string, now time.Time, report meter.Report,
) error {
	if err := o.exists(); err != nil {
		return err
	}

	// Beside the repository, so that the pack need not be copied.
	parent := filepath.Dir(filepath.Clean(o.repository))
	work, err := os.MkdirTemp(parent, ".loam-kubernetes-")
	if err != nil {
		return fmt.Errorf("repository: %w", err)
	}
	defer os.RemoveAll(work)

	b, err := kubernetes.Make(ctx, kubernetes.Params{
		Version: version,
		Arch:    o.arch,
		From:    o.from,
		Work:    work,
		Report:  report,
	})
	if err != nil {
		return err
	}

	keys, err := o.open(ctx, out, now)
	if err != nil {
		return err
	}
	k, err := publish.PublishKubernetes(ctx, o.repository, keys, b.Index, b.Pack, o.expiries(), now,
		report)
	if err != nil {
		return err
	}

	plain := int64(0)
	for _, f := range b.Index.Files {
		plain += f.Size
	}
	_, err = fmt.Fprintf(out, "Kubernetes %s, %s: index %d KiB, pack %d KiB of %d KiB\n",
		k.Version, k.Arch, k.IndexSize>>10, b.Index.Pack.Size>>10, plain>>10)
	return err
}
