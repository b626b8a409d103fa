package shoot

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/loam-os/loam/agent/document"
	"github.com/loam-os/loam/agent/osc"
)

// generated is how many documents a run makes.
const generated = 8000

// seedVariable is the seed of another run than the usual one.
const seedVariable = "LOAM_SEED"

// refusals are what a node refuses although Gardener's validation lets it
// through: by the path of the field and the text, with the reason.
var refusals = []struct{ path, text, why string }{
	{
		`\.path$`,
		`outside the trees|is refused|is a directory|holds \.\.|not absolute|too long|below a file`,
		"a node writes to these trees only, and never to what is its own",
	},
	{
		`\.(units|extensionUnits)\[\d+\]\.name$`,
		`holds a character|does not end|is made by systemd itself`,
		"systemd has no unit of that name, or reads no file for it",
	},
	{`\.dropIns\[\d+\]\.name$`, `is not a file name`, "it leads out of the directory"},
	{`\.inline\.data$`, `is not base64`, "the reference cannot decode it either"},
	{`\.secretRef\.(name|dataKey)$`, `is not`, "no API server has such a Secret"},
	{`\.imageRef\.image$`, `is not a reference`, "no registry has such an image"},
	{
		`\.imageRef\.filePathInImage$`,
		`is not the absolute path`,
		"it is a directory, or leads out of the image",
	},
	{
		`^spec\.criConfig\.name$`,
		`not supported`,
		"the type of Gardener's API allows containerd only",
	},
	{`\.plugins\[\d+\]\.values$`, `holds null`, "TOML has no null"},
	{`^spec\.inPlaceUpdates\.kubelet$`, `not a version`, "the reference cannot compare it either"},
	{`^(apiVersion|kind)$`, `an empty value`, "Gardener always writes both"},
}

// A node takes from a cluster whatever Gardener's own validation accepts.
func TestNodesTakeWhatGardenerAccepts(t *testing.T) {
	seed := uint64(1)
	if text := os.Getenv(seedVariable); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
	}

	g := generator{rand.New(rand.NewPCG(seed, 1))}
	texts := make([][]byte, generated)
	for i := range texts {
		texts[i] = g.document(t)
	}

	accepted := 0
	used := make([]bool, len(refusals))
	for i, verdict := range verdicts(t, texts) {
		if verdict != "accepted" {
			continue
		}

		accepted++
		decoded, wrong := osc.Decode("document", texts[i])
		_, refusal := document.Lenient(osc.Check(wrong, decoded, osc.Env{Hostname: "node-1"}))
		for _, err := range listed(refusal) {
			if !excused(err, used) {
				t.Errorf("%s=%d, document %d: %v\n%s", seedVariable, seed, i, err, texts[i])
			}
		}

		if t.Failed() {
			return
		}
	}

	t.Logf("%d of %d accepted by Gardener", accepted, generated)
	if accepted < generated/10 {
		t.Errorf("%s=%d: Gardener accepts %d of %d documents, too few to say anything",
			seedVariable, seed, accepted, generated)
	}

	for i, r := range refusals {
		if !used[i] && seed == 1 {
			t.Errorf("nothing is refused for %s %s: %s", r.path, r.text, r.why)
		}
	}
}

// verdicts returns what Gardener's validation says of each document.
func verdicts(t *testing.T, texts [][]byte) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), built(t, validating, "validate"))
	cmd.Stdin = bytes.NewReader(bytes.Join(texts, []byte("\n")))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr

	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("validate: %v\n%s", err, &stderr)
	}

	lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if len(lines) != len(texts) {
		t.Fatalf("validate: %d answers to %d documents", len(lines), len(texts))
	}

	return lines
}

// listed returns the errors of a refusal.
func listed(refusal error) []error {
	var all document.Errors
	if !errors.As(refusal, &all) {
		if refusal == nil {
			return nil
		}
		return []error{refusal}
	}

	var found []error
	for _, one := range all {
		found = append(found, one)
	}

	return found
}

// excused reports whether an error is one of refusals, and marks that as used.
func excused(err error, used []bool) bool {
	var one document.Error
	if !errors.As(err, &one) {
		return false
	}
	for i, r := range refusals {
		if regexp.MustCompile(r.path).MatchString(one.Path) &&
			regexp.MustCompile(r.text).MatchString(one.Error()) {
			used[i] = true
			return true
		}
	}
	return false
}

// generator makes documents: most of their values are usual, some are odd.
type generator struct{ *rand.Rand }

// object is an object of JSON.
type object = map[string]any

// document is a document as JSON, on one line.
func (g generator) document(t *testing.T) []byte {
	t.Helper()
	paths := g.list(4, func() any { return g.path() })
	osc := object{
		"apiVersion": "extensions.gardener.cloud/v1alpha1",
		"kind":       "OperatingSystemConfig",
		"metadata":   object{"name": "a", "namespace": "b"},
		"spec": g.some(object{
			"type":    "loam",
			"purpose": g.of("reconcile", "reconcile", "reconcile", "provision"),
			"units":   g.list(3, func() any { return g.unit(paths) }),
			"files":   g.files(paths),
			"criConfig": g.rarely(
				g.criConfig(),
			),
			"inPlaceUpdates": g.rarely(object{
				"operatingSystemVersion": g.of("1.2.3", "", "later"),
				"kubelet":                g.of("1.36.3", "v1.36.3", "1.36", "", "later"),
				"credentialsRotation": g.rarely(object{
					"certificateAuthorities": object{
						"lastInitiationTime": g.of("2026-01-02T03:04:05Z", nil),
					},
					"serviceAccountKey": g.of(object{}, nil),
				}),
			}),
		}),
	}

	if g.IntN(3) == 0 {
		osc["status"] = g.some(object{
			"extensionUnits": g.list(2, func() any { return g.unit(paths) }),
			"extensionFiles": g.files(g.list(2, func() any { return g.path() })),
			"inPlaceUpdates": object{"osUpdate": object{
				"command": g.of("loam", "", "/bin/true"),
				"args":    []any{g.text()},
			}},
		})
	}

	if g.IntN(4) == 0 {
		g.mutate(osc)
	}

	text, err := json.Marshal(osc)
	if err != nil {
		t.Fatal(err)
	}

	return text
}

func (g generator) unit(paths []any) any {
	return g.some(object{
		"name": g.of("a.service", "a.service", "b.timer", "c.path", "d@.service", "d@1.service",
			"e.mount", "f.socket", "containerd.service", "kubelet.service", "g.target", "h.slice",
			"i.device", "j.scope", "k", "../l.service", "m n.service"),
		"command": g.of("start", "restart", "stop", "reload", "", nil),
		"enable":  g.of(true, false, nil),
		"content": g.of("[Service]\nExecStart=/bin/true\n", "[Install]\n"+
			"WantedBy=multi-user.target\n", "[Install]\n"+
			"Alias=x.service\n", "", "nothing", "[Later]\na=b\n", nil),
		"dropIns": g.list(2, func() any {
			return object{
				"name": g.of("10-a.conf", "10-b.conf", "a", "../a.conf",
					"30-env_config.conf", ".conf"),
				"content": g.of("[Service]\nUser=a\n", "[Unit]\n", "x", "\x00"),
			}
		}),
		"filePaths": g.list(2, func() any { return g.of(append([]any{"/etc/a"}, paths...)...) }),
	})
}

func (g generator) files(paths []any) []any {
	var files []any
	for _, path := range paths {
		file := object{
			"path":        path,
			"permissions": g.of(420, 493, 0, 4095, 33188, 4294967295, nil),
			"content":     g.content(),
			"hostName":    g.of(nil, nil, nil, "node-1", "node-2", "a.b"),
		}
		files = append(files, g.some(file))
	}
	return files
}

func (g generator) content() any {
	content := object{}
	switch g.IntN(6) {
	case 0:
		content["secretRef"] = object{
			"name":    g.of("a", "a.b", "A", "a_b", "-"),
			"dataKey": g.of("key", "a.b", "a b", "/", ".."),
		}
	case 1:
		content["imageRef"] = object{
			"image": g.of("registry.k8s.io/a:v1", "a", "a@sha256:0", "A/b:c",
				"https://a/b", "a/b:c@sha256:"+strings.Repeat("0", 64)),
			"filePathInImage": g.of("/a", "a", "/a/../b", "/a/", "/", "."),
		}
	default:
		content["inline"] = object{
			"encoding": g.of("", "b64", "b64", "gzip"),
			"data":     g.of("YQ==", "YQ", "YQ==\n", "text", "%", "YQ=="),
		}
	}

	content["transmitUnencoded"] = g.of(nil, true, false)
	return content
}

func (g generator) criConfig() any {
	return object{
		"name":         g.of("containerd", "containerd", "containerd", "docker"),
		"cgroupDriver": g.of("systemd", "cgroupfs", nil, "later"),
		"containerd": g.rarely(g.some(object{
			"sandboxImage": g.of("registry.k8s.io/pause:3.10", "pause", "A", "a b"),
			"registries": g.list(2, func() any {
				return object{
					"upstream": g.of("docker.io", "_default", "a.b:5000", "localhost", "1.2.3.4",
						"a", "[::1]:80", "a:0"),
					"server": g.of(nil, "https://a.b", "http://a.b:5000/v2", "https://[::1]",
						"https://", "https://a b", "HTTPS://a.b"),
					"hosts": g.list(2, func() any {
						return object{
							"url": g.of("https://a.b", "http://a.b:1", "ftp://a.b",
								"//a.b", "https://a.b/v2/?c=d", "https://u:p@a.b",
								"https://a.b:99999"),
							"capabilities": g.list(2, func() any {
								return g.of("pull", "resolve", "push", "later")
							}),
							"caCerts": g.list(1, func() any {
								return g.of("/etc/a", "a", "")
							}),
							"overridePath": g.of(nil, true, false),
						}
					}),
					"readinessProbe": g.of(nil, true, false),
				}
			}),
			"plugins": g.list(2, func() any {
				return object{
					"op": g.of(nil, "add", "remove", "later"),
					"path": g.list(2, func() any {
						return g.of("io.containerd.grpc.v1.cri", "a", "")
					}),
					"values": g.of(nil, nil, object{"a": "b"}, object{"a": nil},
						object{"a": []any{nil}}, object{"a": 1.5}, []any{1}, "x"),
				}
			}),
		})),
	}
}

// path is the path of a file.
func (g generator) path() any {
	return g.of("/etc/a", "/etc/b", "/etc/a/b", "/opt/bin/c", "/var/lib/d/e", "/etc//f", "/etc/g/",
		"/etc/../h", "i", "/", "/usr/j", "/proc/k", "/etc/systemd/system/a.service",
		"/etc/systemd/system/a.service.d/10-a.conf", "/var/lib/loam/l",
		"/etc/containerd/config.toml", "/etc/machine-id", "/run/m", "/tmp/n", "/boot/o", "/etc/p q",
		"/etc/ä", "/etc/"+
			strings.Repeat("r", 300), "/etc/kubernetes/manifests/s.yaml")
}

func (g generator) text() any { return g.of("a", "", "ä", "\n", strings.Repeat("x", 5000)) }

// of is one of values.
func (g generator) of(values ...any) any { return values[g.IntN(len(values))] }

// rarely is value, or nothing.
func (g generator) rarely(value any) any {
	if g.IntN(2) == 0 {
		return nil
	}
	return value
}

// list is at most so many values.
func (g generator) list(most int, value func() any) []any {
	values := []any{}
	for range g.IntN(most + 1) {
		values = append(values, value())
	}
	return values
}

// some is an object, mostly without one of its fields.
func (g generator) some(o object) object {
	for _, key := range slices.Sorted(maps.Keys(o)) {
		if key != "purpose" && g.IntN(8) == 0 {
			delete(o, key)
		}
	}
	return o
}

// mutate changes a value somewhere in the object to one of another kind, or
// adds a field.
func (g generator) mutate(o object) {
	keys := slices.Sorted(maps.Keys(o))
	key := fmt.Sprint("later", g.IntN(3))
	if len(keys) > 0 && g.IntN(4) > 0 {
		key = keys[g.IntN(len(keys))]
	}

	switch value := o[key].(type) {
	case object:
		g.mutate(value)
	case []any:
		if len(value) > 0 {
			if inner, ok := value[0].(object); ok {
				g.mutate(inner)
				return
			}
		}
		o[key] = g.of(nil, []any{nil}, []any{}, "x")
	default:
		o[key] = g.of(nil, "x", 1, true, 1.5, object{}, []any{})
	}
}
