package osc_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/osc"
)

// content returns a document with one file that has this content, on line 6.
func content(text string) string {
	return head + "  files:\n  - path: /etc/a\n    content: {" + text + "}\n"
}

func secret(name, key string) string {
	return content("secretRef: {name: " + name + ", dataKey: " + key + "}")
}
func image(name, path string) string {
	return content("imageRef: {image: " + name + ", filePathInImage: " + path + "}")
}

// Each row is refused with this error, even if no contents are needed. accepted
// is as in TestBadInput.
func TestBadReferencesAndUpdates(t *testing.T) {
	const (
		nameHint  = "; hint: write it in lower case: letters, digits, dashes and dots"
		keyHint   = "; hint: write letters, digits, dashes, underscores and dots"
		imageHint = " is not a reference to an image; hint: " +
			"write HOST[:PORT]/PATH[:TAG][@sha256:DIGEST], host and path in lower case"
		pathHint = " is not the absolute path of a file; hint: begin it with / and leave out . " +
			"and .. and a / at the end"
	)

	for _, test := range []struct {
		name, text, want string
		accepted         bool
	}{
		{
			name: "no Secret",
			text: secret(`""`, "k"),
			want: "c:6: spec.files[0].content.secretRef.name: empty; hint: name the Secret",
		},
		{
			name: "a Secret in upper case",
			text: secret("A", "k"),
			want: `c:6: spec.files[0].content.secretRef.name: "A" is not the name of a Secret` +
				nameHint,
		},
		{
			name: "a Secret of another namespace",
			text: secret("a/b", "k"),
			want: `c:6: spec.files[0].content.secretRef.name: "a/b" is not the name of a Secret` +
				nameHint,
		},
		{
			name: "no key",
			text: secret("a", `""`),
			want: "c:6: spec.files[0].content.secretRef.dataKey: empty; hint: " +
				"name the key of the Secret's data",
		},
		{
			name: "a key that is a path",
			text: secret("a", "b/c"),
			want: `c:6: spec.files[0].content.secretRef.dataKey: "b/c" is not a key of a Secret` +
				keyHint,
		},
		{
			name: "a key that leads up",
			text: secret("a", "..b"),
			want: `c:6: spec.files[0].content.secretRef.dataKey: "..b" is not a key of a Secret` +
				keyHint,
		},
		{
			name: "no image",
			text: image(`""`, "/a"),
			want: "c:6: spec.files[0].content.imageRef.image: empty; hint: name the image, " +
				"such as registry.example/hyperkube@sha256:DIGEST",
		},
		{
			name: "an image in upper case",
			text: image("a.b/C", "/a"),
			want: `c:6: spec.files[0].content.imageRef.image: "a.b/C"` + imageHint,
		},
		{
			name: "an image with a scheme",
			text: image("'https://a.b/c'", "/a"),
			want: `c:6: spec.files[0].content.imageRef.image: "https://a.b/c"` + imageHint,
		},
		{
			name: "an image that leads up",
			text: image("a.b/../c", "/a"),
			want: `c:6: spec.files[0].content.imageRef.image: "a.b/../c"` + imageHint,
		},
		{
			name: "an image with half a digest",
			text: image("a.b/c@sha256:00", "/a"),
			want: `c:6: spec.files[0].content.imageRef.image: "a.b/c@sha256:00"` + imageHint,
		},
		{
			name: "no path in the image",
			text: image("a.b/c", `""`),
			want: "c:6: spec.files[0].content.imageRef.filePathInImage: empty; hint: " +
				"write the file's absolute path in the image, such as /kubelet",
		},
		{
			name:     "a relative path in the image",
			accepted: true,
			text:     image("a.b/c", "kubelet"),
			want:     `c:6: spec.files[0].content.imageRef.filePathInImage: "kubelet"` + pathHint,
		},
		{
			name: "a path in the image that leads up",
			text: image("a.b/c", "/../a"),
			want: `c:6: spec.files[0].content.imageRef.filePathInImage: "/../a"` + pathHint,
		},
		{
			name:     "a directory of the image",
			accepted: true,
			text:     image("a.b/c", "/a/"),
			want:     `c:6: spec.files[0].content.imageRef.filePathInImage: "/a/"` + pathHint,
		},

		{
			name:     "unencoded outside of user data",
			accepted: true,
			text:     content("transmitUnencoded: true, inline: {data: x}"),
			want: "c:6: spec.files[0].content.transmitUnencoded: " +
				"is only for the purpose provision; hint: leave it out, " +
				"or write purpose: provision",
		},

		{
			name:     "no version of the system",
			accepted: true,
			text:     head + "  inPlaceUpdates: {kubelet: 1.35.0}\n",
			want: "c:4: spec.inPlaceUpdates.operatingSystemVersion: empty; hint: " +
				"write the version of the image, IMAGE_VERSION of its os-release",
		},
		{
			name:     "no version of kubelet",
			accepted: true,
			text:     head + "  inPlaceUpdates: {operatingSystemVersion: 1.0.0}\n",
			want: "c:4: spec.inPlaceUpdates.kubelet: empty; hint: " +
				"write the version of kubelet, such as 1.35.0",
		},
		{
			name:     "half a version of kubelet",
			accepted: true,
			text:     head + "  inPlaceUpdates: {operatingSystemVersion: 1.0.0, kubelet: '1.35'}\n",
			want:     `c:4: spec.inPlaceUpdates.kubelet: "1.35" is not a version; hint: write three numbers, such as 1.35.0`,
		},
		{
			name: "a time in words",
			text: head + "  inPlaceUpdates: {operatingSystemVersion: a, kubelet: 1.35.0, " +
				"credentialsRotation: {serviceAccountKey: {lastInitiationTime: today}}}\n",
			want: `c:4: spec.inPlaceUpdates.credentialsRotation.serviceAccountKey.lastInitiationTime: is the string "today", want a time; hint: write it as 2026-08-01T00:00:00Z (RFC 3339)`,
		},
		{
			name:     "an update without a command",
			accepted: true,
			text:     head + "status: {inPlaceUpdates: {osUpdate: {args: [x]}}}\n",
			want: "c:4: status.inPlaceUpdates.osUpdate.command: empty; hint: " +
				"write the command, or leave osUpdate out",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			decoded, err := osc.Decode("c", []byte(test.text))
			err = osc.Check(err, decoded, osc.Env{Hostname: "here"})
			if diff := cmp.Diff(test.want, message(err)); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
			if got := accepts(err); got != test.accepted {
				t.Errorf("accepted from a cluster: %v, want %v", got, test.accepted)
			}
		})
	}
}

// A document can be checked without its contents, but not merged.
func TestMergeNeedsContents(t *testing.T) {
	const hint = "; hint: put it into the directory that machine.yaml names in contents, " +
		"or give the content inline"
	for _, test := range []struct{ name, text, want string }{
		{
			name: "of a Secret",
			text: secret("a", "k"),
			want: "c:6: spec.files[0].content.secretRef: " +
				"there is no k of the Secret a on this node" + hint,
		},
		{
			name: "of an image",
			text: image("a.b/c:v1", "/d"),
			want: "c:6: spec.files[0].content.imageRef: there is no /d of the image a.b/c:v1 " +
				"on this node" + hint,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			document := decode(t, test.text)
			if err := osc.Validate(document, osc.Env{}); err != nil {
				t.Errorf("Validate: %v", err)
			}

			_, err := osc.Merge(document, osc.Env{})
			if diff := cmp.Diff(test.want, message(err)); diff != "" {
				t.Errorf("Merge (-want +got):\n%s", diff)
			}

			want := config.Text("hello")
			found := map[osc.Reference]config.Content{osc.References(document, osc.Env{})[0]: want}
			desired := merge(t, document, osc.Env{Contents: found})
			diff := cmp.Diff([]config.File{{Path: "/etc/a", Mode: 0o600, Content: want}},
				desired.Files)
			if diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMergeUpdate(t *testing.T) {
	for _, test := range []struct {
		name, fields string
		want         config.Update
	}{
		{
			name:   "a version with v",
			fields: "kubelet: v1.35.0",
			want:   config.Update{Kubelet: "1.35.0"},
		},
		{
			name:   "a pre-release",
			fields: "kubelet: 1.36.0-rc.1",
			want:   config.Update{Kubelet: "1.36.0-rc.1"},
		},
		{
			name:   "a rotation that has not begun",
			fields: "kubelet: 1.35.0, credentialsRotation: {certificateAuthorities: {}}",
			want:   config.Update{Kubelet: "1.35.0"},
		},
		{
			name: "a rotation, in UTC",
			fields: "kubelet: 1.35.0, credentialsRotation: {serviceAccountKey: " +
				"{lastInitiationTime: 2026-08-01T02:00:00+02:00}}",
			want: config.Update{
				Kubelet:           "1.35.0",
				ServiceAccountKey: time.Date(2026, 8, 1, 0, 0, 0, 0, time.UTC),
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			desired := merge(t,
				decode(
					t,
					head+"  inPlaceUpdates: {operatingSystemVersion: \"1.2\", "+test.fields+"}\n",
				), osc.Env{})
			test.want.OSVersion = "1.2"
			if diff := cmp.Diff(&test.want, desired.Update); diff != "" {
				t.Errorf("update (-want +got):\n%s", diff)
			}
		})
	}
}

// The Secret of a node has no purpose, so transmitUnencoded: false is no
// mistake.
func TestUnencodedMayBeFalse(t *testing.T) {
	if err := mergeText(content("transmitUnencoded: false, inline: {data: x}"),
		osc.Env{}); err != nil {
		t.Error(err)
	}
}
