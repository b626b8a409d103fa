package registry

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/test/cluster"
	"github.com/loam-os/loam/test/containerd"
)

func image1(content string) cluster.Image {
	return cluster.Image{Layers: []cluster.Layer{{"f": text(content)}}}
}

func TestOnlySignedImagesArePulled(t *testing.T) { eachSigner(t, onlySignedImagesArePulled) }

func onlySignedImagesArePulled(t *testing.T, newSigner func(*testing.T) signer) {
	c := containerd.Start(t)
	r := cluster.StartRegistry(t, cluster.RegistryOptions{})
	ours := newSigner(t)
	theirs := newSigner(t)

	host := r.Address()
	old := r.Push(t, "a/old:v1", image1("old"))
	ours.sign(t, r, false, "a/old", old)
	bundled := r.Push(t, "a/bundled:v1", image1("bundled"))
	ours.sign(t, r, true, "a/bundled", bundled)
	index := r.PushIndex(t, "a/index:v1", image1("index"))
	ours.sign(t, r, false, "a/index", index)
	foreign := r.Push(t, "a/foreign:v1", image1("foreign"))
	theirs.sign(t, r, false, "a/foreign", foreign)
	theirs.sign(t, r, true, "a/foreign", foreign)
	both := r.Push(t, "a/both:v1", image1("both"))
	theirs.sign(t, r, false, "a/both", both)
	ours.sign(t, r, false, "a/both", both)
	unsigned := r.Push(t, "a/unsigned:v1", image1("unsigned"))
	r.Push(t, "a/moved:v1", image1("old"))
	ours.copySignature(t, r, "a/old", "a/moved", old)

	for _, row := range []struct{ name, ref, want, err string }{
		{name: "by tag", ref: "/a/old:v1", want: "old"},
		{name: "by digest", ref: "/a/old@" + old, want: "old"},
		{name: "a bundle", ref: "/a/bundled@" + bundled, want: "bundled"},
		{name: "an index", ref: "/a/index@" + index, want: "index"},
		{name: "two signatures, one by the key", ref: "/a/both@" + both, want: "both"},
		{
			name: "no signature",
			ref:  "/a/unsigned@" + unsigned,
			err:  "the registry has no signature of it",
		},
		{
			name: "signed by another key",
			ref:  "/a/foreign@" + foreign,
			err:  "not signed by a trusted key",
		},
		{
			name: "a tag with the signature of another repository",
			ref:  "/a/moved:v1",
			err:  "the signature is for \"" + host + "/a/old\"; hint: name the image by its digest",
		},
		{name: "the same by digest", ref: "/a/moved@" + old, want: "old"},
		{
			name: "a tag with a bundle, which names no repository",
			ref:  "/a/bundled:v1",
			err:  "the signature is for \"\"",
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			provider := New(c.Socket())
			provider.Require(ours.keys())
			got, err := get(t, provider, host+row.ref, "/f")
			if row.err == "" {
				if err != nil || got != row.want {
					t.Errorf("%q, %v", got, err)
				}
				return
			}
			if fault.Of(err) != fault.ImageNotSigned ||
				!strings.Contains(hint.Line(err), row.err) {
				t.Errorf("error %v, want %s", hint.Line(err), row.err)
			}
		})
	}
}

// TestOtherReferrersDoNotCount has a signature after many SBOMs, and too many
// signatures.
func TestOtherReferrersDoNotCount(t *testing.T) {
	sbom := ocispec.Descriptor{ArtifactType: "application/spdx+json"}
	signature := ocispec.Descriptor{ArtifactType: "application/vnd.dev.sigstore.bundle.v0.3+json"}

	all := append(slices.Repeat([]ocispec.Descriptor{sbom}, 2*maxReferrers), signature)
	if found := bundles(all); len(found) != 1 {
		t.Errorf("%d bundles, want 1", len(found))
	}
	all = slices.Repeat([]ocispec.Descriptor{signature}, 2*maxReferrers)
	if found := bundles(all); len(found) != maxReferrers {
		t.Errorf("%d bundles, want %d", len(found), maxReferrers)
	}
}

// TestSignaturesAreKeptWithTheImage: a node verifies an image again without its
// registry, and does not take it without the signature.
func TestSignaturesAreKeptWithTheImage(t *testing.T) { eachSigner(t, signaturesAreKept) }

func signaturesAreKept(t *testing.T, newSigner func(*testing.T) signer) {
	c := containerd.Start(t)
	r := cluster.StartRegistry(t, cluster.RegistryOptions{})
	ours := newSigner(t)
	digest := r.Push(t, "a/b:v1", image1("1"))
	ref := r.Address() + "/a/b@" + digest

	before := New(c.Socket()) // It has the image before the keys count.
	if _, err := get(t, before, ref, "/f"); err != nil {
		t.Fatal(err)
	}

	provider := New(c.Socket())
	provider.Require(ours.keys())
	if _, err := get(t, provider, ref, "/f"); fault.Of(err) != fault.ImageNotSigned {
		t.Fatalf("an image that was there before: %v", err)
	}
	ours.sign(t, r, false, "a/b", digest)
	if _, err := get(t, provider, ref, "/f"); err != nil {
		t.Fatal(err)
	}

	r.Stop(t)
	if err := provider.Keep(context.WithoutCancel(t.Context()), []string{ref}); err != nil {
		t.Fatal(err)
	}
	again := New(c.Socket())
	again.Require(ours.keys())
	if got, err := get(t, again, ref, "/f"); err != nil || got != "1" {
		t.Errorf("without the registry: %q, %v", got, err)
	}

	other := New(c.Socket())
	other.Require(newSigner(t).keys())
	if _, err := get(t, other, ref, "/f"); fault.Of(err) != fault.RegistryUnreachable {
		t.Errorf("another key, without the registry: %v", err)
	}

	if err := again.Keep(context.WithoutCancel(t.Context()), nil); err != nil {
		t.Fatal(err)
	}
	again.Follow(nil)
	if err := again.Keep(context.WithoutCancel(t.Context()), nil); err != nil {
		t.Fatal(err)
	}
	if n := blobs(t, again, namespace); n != 0 {
		t.Errorf("%d blobs are left", n)
	}
}

// TestSignaturesComeFromMirrors: a mirror that has the image and its signature is
// enough.
func TestSignaturesComeFromMirrors(t *testing.T) { eachSigner(t, signaturesComeFromMirrors) }

func signaturesComeFromMirrors(t *testing.T, newSigner func(*testing.T) signer) {
	c := containerd.Start(t)
	mirror := cluster.StartRegistry(t, cluster.RegistryOptions{})
	ours := newSigner(t)
	digest := mirror.Push(t, "a/b:v1", image1("1"))
	hosts := fmt.Sprintf("server = \"https://registry.example\"\n[host.%q]\n"+
		"capabilities = [\"pull\", \"resolve\"]\n", mirror.URL())
	dir := t.TempDir()
	write(t, filepath.Join(dir, "registry.example", "hosts.toml"), hosts)

	ours.sign(t, mirror, false, "a/b", digest)
	provider := New(c.Socket(), dir)
	provider.Require(ours.keys())
	got, err := get(t, provider, "registry.example/a/b@"+digest, "/f")
	if err != nil || got != "1" {
		t.Errorf("%q, %v", got, err)
	}
}
