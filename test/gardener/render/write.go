package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	"github.com/gardener/gardener/pkg/component/extensions/operatingsystemconfig/utils"
	kubernetesutils "github.com/gardener/gardener/pkg/utils/kubernetes"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-base/version"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// index is index.json: which documents were rendered, and by which Gardener.
type index struct {
	Version   string     `json:"version"`
	Documents []document `json:"documents"`
}

// document is one rendered OperatingSystemConfig. File names are relative to
// the directory of the index.
type document struct {
	Name   string `json:"name"`
	Varies string `json:"varies"`

	// Base is the document that this one is a neighbour of: they differ by what
	// Varies says alone. Documents of one kind have bases of that kind.
	Base string `json:"base,omitempty"`

	// Kind is the purpose of the object: reconcile or provision.
	Kind string `json:"kind"`

	// Object is the OperatingSystemConfig as it is in the seed, for its
	// extension.
	Object string `json:"object"`

	// Secret is the manifest that the node agent watches, and OSC the bytes of
	// its osc.yaml. Only reconcile documents have them.
	Secret string `json:"secret,omitempty"`
	OSC    string `json:"osc,omitempty"`

	// NodeAgentConfiguration is the configuration of the node agent in Files.
	NodeAgentConfiguration string `json:"nodeAgentConfiguration"`

	// Files are the contents of the document's inline files.
	Files []file `json:"files"`
}

type file struct {
	Path        string `json:"path"`
	Permissions string `json:"permissions,omitempty"`
	File        string `json:"file"`
}

// codec decodes the contents of inline files.
var codec = utils.NewFileContentInlineCodec()

// writer writes documents into a directory and collects their index.
type writer struct {
	dir   string
	index index
}

func newWriter(dir string) *writer {
	return &writer{dir: dir, index: index{Version: version.Get().GitVersion}}
}

// reconcile writes a document for a node agent.
func (w *writer) reconcile(
	d document, object *extensionsv1alpha1.OperatingSystemConfig, secret *corev1.Secret,
) error {
	d.Kind = "reconcile"
	d.OSC = filepath.Join(d.Kind, d.Name, "osc.yaml")
	d.Secret = filepath.Join(d.Kind, d.Name, "secret.yaml")

	if err := w.write(d.OSC, secret.Data["osc.yaml"]); err != nil {
		return err
	}

	if err := w.manifest(d.Secret, secret); err != nil {
		return err
	}

	return w.document(d, object)
}

// provision writes a document for the first boot of a machine.
func (w *writer) provision(d document, object *extensionsv1alpha1.OperatingSystemConfig) error {
	d.Kind = "provision"
	return w.document(d, object)
}

// document writes what documents of both kinds have.
func (w *writer) document(d document, object *extensionsv1alpha1.OperatingSystemConfig) error {
	dir := filepath.Join(d.Kind, d.Name)
	d.Object = filepath.Join(dir, "operatingsystemconfig.yaml")
	if err := w.manifest(d.Object, object); err != nil {
		return err
	}

	for _, f := range object.Spec.Files {
		if f.Content.Inline == nil {
			continue
		}

		content, err := codec.Decode(f.Content.Inline)
		if err != nil {
			return fmt.Errorf("%s: %s: %w", d.Name, f.Path, err)
		}

		entry := file{Path: f.Path, File: filepath.Join(dir, "files", f.Path)}
		if f.Permissions != nil {
			entry.Permissions = fmt.Sprintf("%04o", *f.Permissions)
		}

		if err := w.write(entry.File, content); err != nil {
			return err
		}

		d.Files = append(d.Files, entry)

		if strings.HasPrefix(f.Path, "/var/lib/gardener-node-agent/config-") {
			d.NodeAgentConfiguration = entry.File
		}
	}

	w.index.Documents = append(w.index.Documents, d)
	return nil
}

func (w *writer) manifest(name string, object client.Object) error {
	text, err := kubernetesutils.Serialize(object, kubernetes.SeedScheme)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return w.write(name, []byte(text))
}

func (w *writer) write(name string, content []byte) error {
	path := filepath.Join(w.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o644)
}

// finish writes the index, after all that it names.
func (w *writer) finish() error {
	text, err := json.MarshalIndent(w.index, "", "  ")
	if err != nil {
		return err
	}
	return w.write("index.json", append(text, '\n'))
}
