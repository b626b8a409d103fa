package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/loam-os/loam/agent/cluster/credentials"
	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/document"
	"github.com/loam-os/loam/agent/nodeagent"
	"github.com/loam-os/loam/agent/osc"
)

// Gardener's configuration carries the configuration of its node agent as a
// file, [credentials.Directory]/config-<version>.yaml. Loam takes from it what
// changes with the configuration: the tokens to sync and the version of
// Kubernetes.

// isNodeAgentFile reports whether name is the path of a configuration of
// Gardener's node agent.
func isNodeAgentFile(name string) bool {
	matches, _ := path.Match(credentials.Directory+"/config-*.yaml", name)
	return matches
}

// readNodeAgentFiles decodes the configurations of Gardener's node agent in
// desired.
func readNodeAgentFiles(
	desired config.Desired,
) (all []nodeagent.Configuration, warnings document.Errors, err error) {
	for _, f := range desired.Files {
		if !isNodeAgentFile(f.Path) {
			continue
		}

		text, err := readContent(f)
		if err != nil {
			return nil, nil, fmt.Errorf("read the node agent's configuration %s: %w", f.Path, err)
		}

		read, more, err := nodeagent.Decode(f.Path, text)
		if err != nil {
			return nil, nil, err
		}
		if err := checkTokenPaths(f.Path, read); err != nil {
			return nil, nil, err
		}

		all = append(all, read)
		warnings = append(warnings, more...)
	}

	return all, warnings, nil
}

// maxConfiguration is the largest node agent configuration that is read, in
// bytes. It may come from an image and is read into memory.
const maxConfiguration = 1 << 20

func readContent(f config.File) ([]byte, error) {
	if f.Content.Size > maxConfiguration {
		return nil, fmt.Errorf("%d bytes: want at most %d", f.Content.Size, maxConfiguration)
	}
	opened, err := f.Content.Open()
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(opened)
	return text, errors.Join(err, opened.Close())
}

// checkTokenPaths refuses to sync tokens to paths that a document may not use
// either, and to paths that something else writes: units and the files by which
// the node reaches its cluster.
func checkTokenPaths(file string, c nodeagent.Configuration) error {
	var report document.Report
	for i, t := range c.Controllers.Token.SyncConfigs {
		at := fmt.Sprintf("controllers.token.syncConfigs[%d].path", i)
		osc.CheckPath(&report, at, t.Path)
		if isTaken(t.Path) {
			report.Add(at, document.Quote(t.Path)+" is written by something else",
				"choose another path for the token")
		}
	}

	err := report.Err()
	if errs, ok := err.(document.Errors); ok {
		for i := range errs {
			errs[i].File = file
		}
	}

	return err
}

// isTaken reports whether something other than the token sync writes name.
func isTaken(name string) bool {
	own := append(credentials.Files(), "/"+secretName)
	return isNodeAgentFile(name) || slices.Contains(own, path.Join("/", name)) ||
		strings.HasPrefix(name, "/etc/systemd/system/")
}

// tokensIn returns the token syncs that a configuration carries.
func tokensIn(desired config.Desired) ([]Token, error) {
	all, _, err := readNodeAgentFiles(desired)
	var tokens []Token
	for _, read := range all {
		tokens = append(tokens, tokensOf(read)...)
	}
	return tokens, err
}

// DataVolumeSize returns bootstrap.kubeletDataVolumeSize of the node agent
// configuration in desired, in bytes; 0 if unset.
func DataVolumeSize(desired config.Desired) (int64, error) {
	all, _, err := readNodeAgentFiles(desired)
	for _, read := range all {
		if size := read.Bootstrap.KubeletDataVolumeSize; size > 0 {
			return size, nil
		}
	}
	return 0, err
}

// ReserveTokenPaths removes from desired the files at whose paths tokens are
// synced, by the node agent configuration that desired carries or by more: two
// writers of one file would undo each other forever. It returns the warnings of
// that configuration. The file on the node stays when the configuration drops
// it.
func ReserveTokenPaths(
	desired *config.Desired, more []Token,
) (warnings document.Errors, err error) {
	all, warnings, err := readNodeAgentFiles(*desired)
	if err != nil {
		return nil, err
	}

	tokens := slices.Clone(more)
	for _, read := range all {
		tokens = append(tokens, tokensOf(read)...)
	}
	if len(tokens) == 0 {
		return warnings, nil
	}

	for _, t := range tokens {
		desired.Synced = append(desired.Synced, path.Clean(t.Path))
	}

	slices.Sort(desired.Synced)
	desired.Synced = slices.Compact(desired.Synced)
	desired.Files = slices.DeleteFunc(slices.Clone(desired.Files), func(f config.File) bool {
		synced := slices.Contains(desired.Synced, f.Path)
		if synced {
			desired.LeftOut = append(desired.LeftOut,
				config.LeftOut{Name: f.Path, Why: "a token is synced there"})
		}
		return synced
	})

	slices.SortFunc(desired.LeftOut, func(a, b config.LeftOut) int {
		return strings.Compare(a.Name, b.Name)
	})

	return warnings, nil
}

// carried is what the running configuration carries for the node agent.
type carried struct {
	// generation is the generation that was read, valid if isRead.
	generation string
	isRead     bool

	// failed is the last read error, "" if none. It is logged once.
	failed string

	tokens []Token

	// kubernetesVersion is a valid label value, "" if unset.
	kubernetesVersion string
}

// isDue reports whether to read what another generation carries.
func (c carried) isDue(generation string) bool { return !c.isRead || c.generation != generation }

// carriedController reads what the running configuration carries, once for each
// generation. After an error the next step tries again; until then the values
// of the previous generation apply.
type carriedController struct {
	root fs.FS
	log  *zap.Logger
}

func (c *carriedController) step(_ context.Context, w *world) (outcome, error) {
	if !w.carried.isDue(w.status.Generation) {
		return outcome{}, nil
	}

	read, err := readCarried(c.root)
	if err != nil {
		if err.Error() != w.carried.failed {
			c.log.Error("read the node agent's configuration", zap.Error(err))
		}
		w.carried.failed = err.Error()
		return outcome{}, nil
	}

	version := read.Controllers.OperatingSystemConfig.KubernetesVersion
	if wrong := validation.IsValidLabelValue(version); len(wrong) > 0 {
		c.log.Error("the Kubernetes version is not a valid label value",
			zap.String("version", version))
		version = ""
	}

	w.carried = carried{
		generation:        w.status.Generation,
		isRead:            true,
		tokens:            tokensOf(read),
		kubernetesVersion: version,
	}
	return outcome{}, nil
}

// CarriedTokens returns the token syncs that the newest configuration on the
// node carries. root is the node's root directory.
func CarriedTokens(root fs.FS) ([]Token, error) {
	read, err := readCarried(root)
	return tokensOf(read), err
}

// readCarried decodes the newest node agent configuration on the node. It
// returns the zero value if the node has none.
func readCarried(root fs.FS) (nodeagent.Configuration, error) {
	name, err := newest(root, credentials.Directory[1:])
	if errors.Is(err, fs.ErrNotExist) {
		return nodeagent.Configuration{}, nil
	}
	if err != nil {
		return nodeagent.Configuration{}, err
	}
	read, _, err := readConfiguration(root, name)
	return read, err
}
