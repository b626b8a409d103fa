package cluster

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/osc"
	"github.com/loam-os/loam/test/files"
)

const referringText = `apiVersion: extensions.gardener.cloud/v1alpha1
kind: OperatingSystemConfig
spec:
  files:
  - path: /etc/ca
    content: {secretRef: {name: ca, dataKey: bundle.crt}}
  - path: /etc/program
    content: {imageRef: {image: "a.b/c:v1", filePathInImage: /bin/program}}
  - path: /etc/other
    hostName: other
    content: {secretRef: {name: other, dataKey: key}}
`

var caReference = osc.Reference{Secret: "ca", Key: "bundle.crt"}

// secretCA is a version of Secret ca with that value.
func secretCA(uid types.UID, version, value string) map[string]*core.Secret {
	return map[string]*core.Secret{"ca": {
		ObjectMeta: meta.ObjectMeta{UID: uid, ResourceVersion: version},
		Data:       map[string][]byte{"bundle.crt": []byte(value), "more": []byte(version)},
	}}
}

// referring is newWorld whose cluster has a configuration that refers to a Secret.
func referring() world {
	w := newWorld()
	secret := &core.Secret{
		ObjectMeta: meta.ObjectMeta{
			Name:            "pool",
			ResourceVersion: "10",
			Annotations:     map[string]string{policyAnnotation: `{"maxUnavailable": 1}`},
		},
		Data: map[string][]byte{dataKey: []byte(referringText)},
	}
	w.setPending(pendingConfigOf(secret, "me", noon))
	return w
}

func TestReferencesToSecrets(t *testing.T) {
	want := []osc.Reference{caReference}
	if diff := cmp.Diff(want, referring().pending.references); diff != "" {
		t.Errorf("references (-want +got):\n%s", diff)
	}
	if got, _ := secretReferences([]byte("secretRef: ["), "me"); got != nil {
		t.Errorf("of what is no configuration: %v", got)
	}

	secret := &core.Secret{Data: map[string][]byte{dataKey: []byte(referringText)}}
	if got := pendingConfigOf(secret, "me", noon); got.references != nil {
		t.Errorf("without a policy: %v", got.references)
	}
}

func TestNewValuesAreAnotherConfiguration(t *testing.T) {
	for _, tt := range []struct {
		name string
		next map[string]*core.Secret

		another  bool
		revision uint64
	}{
		{"the same version", secretCA("1", "20", "A"), false, 20},
		{"another value of another key", secretCA("1", "30", "A"), false, 30},
		{"another value", secretCA("1", "30", "B"), true, 30},
		{"another Secret with the same value", secretCA("2", "30", "A"), true, 30},
		{"no Secret any more: the value stays", map[string]*core.Secret{"ca": nil}, false, 20},
		{"no key any more: the value stays", map[string]*core.Secret{"ca": {}}, false, 20},
		{"no answer any more: the value stays", nil, false, 20},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := referring()
			w.setValues(secretCA("1", "20", "A"))
			w.released = w.pending
			before := *w.pending

			w.setValues(tt.next)
			p := w.pending
			if another := p.sum != before.sum; another != tt.another || p.revision != tt.revision {
				t.Errorf("another %t, revision %d", another, p.revision)
			}
			if p.label != before.label || p.base() != before.base() {
				t.Errorf("label %s, digest of the text %s", p.label, p.base())
			}
		})
	}
}

// TestValuesOfOneHostAreNoTargetOfOthers has nodes take turns for one target, whatever
// the values of files are that only one of them has.
func TestValuesOfOneHostAreNoTargetOfOthers(t *testing.T) {
	secrets := func(ca, other string) map[string]*core.Secret {
		all := secretCA("1", "20", ca)
		all["other"] = &core.Secret{
			ObjectMeta: meta.ObjectMeta{UID: "2", ResourceVersion: "30"},
			Data:       map[string][]byte{"key": []byte(other)},
		}
		return all
	}
	on := func(hostname, text string, newest map[string]*core.Secret) *pendingConfig {
		w := newWorld()
		w.setPending(pendingConfigOf(&core.Secret{
			ObjectMeta: meta.ObjectMeta{
				ResourceVersion: "10",
				Annotations:     map[string]string{policyAnnotation: `{"maxUnavailable": 1}`},
			},
			Data: map[string][]byte{dataKey: []byte(text)},
		}, hostname, noon))
		w.setValues(newest)
		return w.pending
	}

	onlyOther, _, _ := strings.Cut(referringText, "  - path: /etc/ca")
	_, files, _ := strings.Cut(referringText, "  - path: /etc/other")
	onlyOther += "  - path: /etc/other" + files
	for name, text := range map[string]string{"beside others": referringText, "alone": onlyOther} {
		t.Run(name, func(t *testing.T) {
			me, other := on("me", text, secrets("A", "B")), on("other", text, secrets("A", "B"))
			if me.target != other.target || me.revision != other.revision || me.target != me.sum {
				t.Errorf("me %.12s of %d, other %.12s of %d", me.target, me.revision, other.target,
					other.revision)
			}

			next := on("other", text, secrets("A", "C"))
			if next.sum == other.sum || next.target != other.target || next.revision != other.revision {
				t.Errorf("another value of that host: %.12s and %.12s, target %.12s",
					other.sum, next.sum, next.target)
			}
			if again := on("me", text, secrets("A", "C")); again.sum != me.sum {
				t.Error("a value of another host is another configuration here")
			}
		})
	}
	if a, b := on("me", referringText, secrets("A", "B")), on("me", referringText, secrets("B", "B")); a.target == b.target {
		t.Error("another value of all hosts is the same target")
	}
}

func TestTheSameTextKeepsItsValues(t *testing.T) {
	w := referring()
	w.setValues(secretCA("1", "20", "A"))
	before := *w.pending

	again := referring().pending
	again.since = noon.Add(time.Hour)
	w.setPending(*again)
	if p := w.pending; p.sum != before.sum || !p.areKnown || !p.since.Equal(before.since) {
		t.Errorf("%+v, before %+v", p, before)
	}

	unchanged := w.pending
	w.setValues(secretCA("1", "20", "A"))
	if w.pending != unchanged {
		t.Error("the same values are another configuration")
	}
}

// TestAwaitedValues has a node wait for a Secret that is not known yet, but not for
// ever, and not once it knows that there is none.
func TestAwaitedValues(t *testing.T) {
	w := referring()
	w.setValues(nil)
	if !w.awaitsValues() {
		t.Error("it does not wait for an answer")
	}
	w.now = noon.Add(secretTimeout)
	if w.awaitsValues() {
		t.Error("it waits for ever")
	}

	w = referring()
	w.setValues(map[string]*core.Secret{"ca": nil})
	if w.awaitsValues() {
		t.Error("it waits for a Secret that does not exist")
	}
	if w := newWorld(); w.awaitsValues() {
		t.Error("it waits without a reference")
	}
}

// TestTheReleasedValueCounts has the node get the value that was released with its
// configuration, whatever the Secret has now, while there is one.
func TestTheReleasedValueCounts(t *testing.T) {
	c := New(Config{}, Env{
		Root: files.Root(t),
		Log:  zap.NewNop(),
		Now:  func() time.Time { return noon },
	})
	c.Follow([]osc.Reference{caReference})
	see := func(secret *core.Secret) { c.secrets.see(c.secrets.secrets["ca"], secret) }
	read := func() string {
		found, err := c.Secret(t.Context(), "ca", "bundle.crt")
		if err != nil {
			return err.Error()
		}
		return found.Digest[:4]
	}

	see(secretCA("1", "20", "A")["ca"])
	if got := read(); got != "559a" { // sha256 of "A"
		t.Errorf("before a release: %s", got)
	}

	w := referring()
	w.setValues(secretCA("1", "20", "A"))
	c.released.set(w.pending)
	see(secretCA("1", "30", "B")["ca"])
	if got := read(); got != "559a" {
		t.Errorf("a value that is not released: %s", got)
	}

	w.setValues(secretCA("1", "30", "B"))
	c.released.set(w.pending)
	if got := read(); got != "df7e" { // sha256 of "B"
		t.Errorf("once it is released: %s", got)
	}

	see(nil)
	if got := read(); got != "not found" {
		t.Errorf("without its Secret: %s", got)
	}
}
