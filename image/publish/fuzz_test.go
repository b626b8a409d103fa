package publish

import (
	"crypto"
	"encoding/json"
	"testing"

	"github.com/secure-systems-lab/go-securesystemslib/cjson"
	"github.com/theupdateframework/go-tuf/v2/metadata"

	"github.com/loam-os/loam/image/repository"
)

// FuzzSigned signs arbitrary text with the key of a role, below correct roles.
// Update returns an error or releases, and does not panic.
func FuzzSigned(f *testing.F) {
	fx := newFixture(f)
	fx.publish("0.2.0")

	st := fx.state()
	for role, m := range []any{
		st.root.Signed, st.timestamp.Signed, st.snapshot.Signed, st.targets.Signed,
	} {
		text, err := json.Marshal(m)
		fx.ok(err)
		f.Add(role, text)
	}

	keys := []metadataKey{
		{"2.root.json", fx.keys.Root[0]},
		{"timestamp.json", fx.keys.Timestamp},
		{"2.snapshot.json", fx.keys.Snapshot},
		{"2.targets.json", fx.keys.Targets},
	}

	first := fx.read("metadata/1.root.json")
	files := map[string][]byte{}
	for _, name := range []string{"timestamp.json", "2.snapshot.json", "2.targets.json"} {
		files["metadata/"+name] = fx.read("metadata/" + name)
	}

	f.Fuzz(func(t *testing.T, role int, body []byte) {
		if role < 0 || role >= len(keys) {
			return
		}

		fx := &fixture{TB: t, keys: fx.keys, now: start}
		text, ok := keys[role].sign(body)
		if !ok {
			return
		}

		s := memoryStore{"metadata/" + keys[role].file: text}
		for name, data := range files {
			if _, have := s[name]; !have {
				s[name] = data
			}
		}

		if role >= 2 { // what is above names it
			s.name(fx, role, text)
		}

		news, err := repository.Update(t.Context(), s, memory{}, first,
			repository.Clock{Now: fx.now})
		if err != nil && news.Releases != nil {
			t.Errorf("%v and %v", news, err)
		}

		for _, r := range news.Releases {
			if _, err := r.Fetch(t.Context(), s); err == nil {
				t.Error("an index out of nowhere")
			}
		}
	})
}

type metadataKey struct {
	file string
	key  crypto.Signer
}

// sign puts a signature to body, which must be JSON.
func (k metadataKey) sign(body []byte) ([]byte, bool) {
	payload, err := cjson.EncodeCanonical(json.RawMessage(body))
	if err != nil {
		return nil, false
	}

	sig, id := signed(k.key, payload)
	text, err := json.Marshal(map[string]any{
		"signed":     json.RawMessage(body),
		"signatures": []map[string]string{{"keyid": id, "sig": sig}},
	})

	return text, err == nil
}

// name has snapshot and timestamp tell of text.
func (s memoryStore) name(fx *fixture, role int, text []byte) {
	snapshot := metadata.Snapshot(start.Add(day))
	timestamp := metadata.Timestamp(start.Add(day))
	snapshot.Signed.Version = 2

	if role == 3 {
		snapshot.Signed.Meta["targets.json"] = described(text, 2)
		var err error
		text, err = sealed(snapshot, fx.keys.Snapshot)
		fx.ok(err)
		s["metadata/2.snapshot.json"] = text
	}

	timestamp.Signed.Meta["snapshot.json"] = described(text, 2)
	sealedText, err := sealed(timestamp, fx.keys.Timestamp)
	fx.ok(err)
	s["metadata/timestamp.json"] = sealedText
}
