package main

import (
	"context"
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/loam-os/loam/agent/volume"
	"github.com/loam-os/loam/cmd/complete"
	"github.com/loam-os/loam/cmd/loamctl/kubeconfig"
	"github.com/loam-os/loam/cmd/loamctl/rollout"
	"github.com/loam-os/loam/image"
	"github.com/loam-os/loam/image/sign"
)

// flags has a shell complete the values of the flags of all commands.
func flags() complete.Flags {
	certificates := complete.Files("pem", "crt", "cer", "der")
	return complete.Flags{
		Values: map[string]cobra.CompletionFunc{
			"arch":        complete.Words(image.Architectures()...),
			"boot":        offerBuilds,
			"certificate": certificates,
			"context":     completeContexts,
			"db":          certificates,
			"enroll-when": complete.Words(
				string(sign.IfSafe), string(sign.Manual), string(sign.Force)),
			"kek-certificate":  certificates,
			"kek-key":          complete.Files(),
			"key":              complete.Files(),
			"machine":          completeYAML,
			"more-kek":         certificates,
			"pk-certificate":   certificates,
			"pk-key":           complete.Files(),
			"profile":          complete.Words(image.Profiles()...),
			"sector-size":      complete.Words("512", "4096"),
			"sign-certificate": certificates,
			"sign-key":         complete.Files(),
			"signer":           complete.Files(), // A command may be one.
			"update-packages":  complete.Words(updateNever, updateMissing, updateAlways),
			"version":          completeVersions,
			"vulnerabilities":  complete.Files("zip", "json"),
			"yes-wipe":         completeSerials,
		},
		Free: map[string]string{
			"go-flag":      "a flag of go build",
			"host":         "a name or an address",
			"listen":       "an address",
			"max":          "a number, or a share",
			"mirror":       "a URL",
			"name":         "the name of a Secret",
			"node":         "the name of a node",
			"pool":         "the name of a pool",
			"reason":       "a sentence",
			"set":          "shares and times",
			"tokens-group": "the name of a group",
			"waves":        "shares and times",
		},
	}
}

// completeYAML offers files that may be a machine.yaml, or a configuration.
var completeYAML = complete.Files("yaml", "yml")

// completeContexts offers the contexts of the kubeconfig that the command would use.
func completeContexts(
	cmd *cobra.Command, _ []string, _ string,
) ([]string, cobra.ShellCompDirective) {
	file, _ := cmd.Flags().GetString("kubeconfig")
	return kubeconfig.Contexts(kubeconfig.Files(file, os.Getenv)), complete.NoFiles
}

// completeTimeout is how long a cluster has to say what can be typed, unless the caller
// of the command sets a deadline.
const completeTimeout = 3 * time.Second

// completePools offers the pools that have a ledger in the cluster that the command
// would use, and for a second argument the nodes of the first that have a turn or, for
// retry, on which a change has failed.
func completePools(
	cmd *cobra.Command, args []string, _ string,
) ([]string, cobra.ShellCompDirective) {
	if len(args) >= strings.Count(cmd.Use, " ") { // Each word after the first is one.
		return nil, complete.NoFiles
	}
	var o clusterOptions
	o.file, _ = cmd.Flags().GetString("kubeconfig")
	o.context, _ = cmd.Flags().GetString("context")
	server, err := o.open()
	if err != nil {
		return nil, complete.NoFiles // An error must not appear in the line that is typed.
	}
	defer server.Close()

	ctx := cmd.Context()
	if _, isSet := ctx.Deadline(); !isSet {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, completeTimeout)
		defer cancel()
	}

	if len(args) == 0 {
		pools, _ := rollout.Pools(ctx, server)
		return pools, complete.NoFiles
	}
	r := rollout.Rollout{API: server, Pool: args[0]}
	l, err := r.Read(ctx)
	if err != nil {
		return nil, complete.NoFiles
	}
	if cmd.Name() == "retry" {
		report, _ := r.Report(ctx, l, time.Now())
		var nodes []string
		for _, f := range report.Failed {
			nodes = append(nodes, f.Node)
		}
		return slices.Compact(nodes), complete.NoFiles
	}
	machines := slices.AppendSeq(slices.Sorted(maps.Keys(l.Holders)), maps.Keys(l.Restored))
	slices.Sort(machines)
	return slices.Compact(machines), complete.NoFiles
}

// completeBuilds offers the directories of builds, in this directory and in
// build, as the argument number at.
func completeBuilds(at int) cobra.CompletionFunc {
	return func(
		cmd *cobra.Command, args []string, typed string,
	) ([]string, cobra.ShellCompDirective) {
		if len(args) != at {
			return nil, cobra.ShellCompDirectiveDefault
		}
		return offerBuilds(cmd, args, typed)
	}
}

func offerBuilds(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return builds("."), cobra.ShellCompDirectiveDefault
}

// builds returns the directories with a finished build. An error must not appear
// in the line that is being typed.
func builds(root string) []string {
	var found []string
	for _, pattern := range []string{"*", "build/*", "build/release/*"} {
		manifests, _ := filepath.Glob(filepath.Join(root, pattern, image.ManifestName))
		for _, manifest := range manifests {
			if rel, err := filepath.Rel(root, filepath.Dir(manifest)); err == nil {
				found = append(found, rel)
			}
		}
	}
	slices.Sort(found)
	return found
}

// completeFlash offers builds as the image, and the disks of this machine as the
// device.
func completeFlash(
	cmd *cobra.Command, args []string, typed string,
) ([]string, cobra.ShellCompDirective) {
	if len(args) == 1 {
		return devices(disks(os.DirFS("/"))), complete.NoFiles
	}
	return completeBuilds(0)(cmd, args, typed)
}

// completeSerials offers what names the disks of this machine beyond doubt.
func completeSerials(
	*cobra.Command, []string, string,
) ([]string, cobra.ShellCompDirective) {
	return serials(disks(os.DirFS("/"))), complete.NoFiles
}

// disks returns the disks of the machine with that root directory. It opens none of
// them, which may take seconds, and so their content is unknown.
func disks(root fs.FS) []volume.Disk {
	found, _ := volume.Observe(volume.Machine{
		Root: root,
		Open: func(string, bool) (volume.Device, error) { return nil, fs.ErrPermission },
	})
	return found
}

// devices returns the nodes of disks, with what identifies each.
func devices(disks []volume.Disk) (names []string) {
	for _, d := range disks {
		names = append(names, cobra.CompletionWithDesc(d.Device, identify(d)))
	}
	return names
}

// serials returns the words that flash wants to hear, with what identifies each disk.
func serials(disks []volume.Disk) (names []string) {
	for _, d := range disks {
		names = append(names, cobra.CompletionWithDesc(word(d), identify(d)))
	}
	return names
}

// completeVersions offers the releases in the directory that the flag
// --repository names.
func completeVersions(
	cmd *cobra.Command, _ []string, _ string,
) ([]string, cobra.ShellCompDirective) {
	repository, _ := cmd.Flags().GetString("repository")
	return versions(repository), complete.NoFiles
}

// versions returns the versions of the releases in a repository. They are only
// offered, so nothing is verified.
func versions(repository string) []string {
	indexes, _ := filepath.Glob(filepath.Join(repository, "targets", "*.index.json"))
	var found []string
	for _, file := range indexes {
		var index struct {
			Version string `json:"version"`
		}
		text, err := os.ReadFile(file)
		if err == nil && json.Unmarshal(text, &index) == nil && index.Version != "" {
			found = append(found, index.Version)
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}
