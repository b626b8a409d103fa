package durable

import (
	"errors"
	"testing"
	"testing/fstest"

	"github.com/loam-os/loam/test/files"
)

func TestReadJSON(t *testing.T) {
	for _, tt := range []struct {
		name      string
		files     fstest.MapFS
		want      int
		wantFound bool
		wantErr   error
	}{
		{name: "an absent file", files: fstest.MapFS{}},
		{
			name:      "a file",
			files:     fstest.MapFS{"state.json": {Data: []byte("{\"n\":3}\n")}},
			want:      3,
			wantFound: true,
		},
		{
			name:      "a file that is cut off",
			files:     fstest.MapFS{"state.json": {Data: []byte(`{"n":`)}},
			wantFound: true,
			wantErr:   ErrCorrupt,
		},
		{
			name:      "another type",
			files:     fstest.MapFS{"state.json": {Data: []byte(`{"n":"3"}`)}},
			wantFound: true,
			wantErr:   ErrCorrupt,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got struct{ N int }
			found, err := ReadJSON(tt.files, "state.json", &got)
			if found != tt.wantFound || !errors.Is(err, tt.wantErr) || got.N != tt.want {
				t.Errorf("ReadJSON: %v, %v, %+v", found, err, got)
			}
		})
	}
}

func TestWriteJSONIsReadBack(t *testing.T) {
	root := files.Root(t)

	type state struct {
		N int `json:"n"`
	}
	if err := New(root, nil).WriteJSON("state.json", state{N: 3}, 0o600); err != nil {
		t.Fatal(err)
	}
	text, err := root.ReadFile("state.json")
	if err != nil || string(text) != "{\"n\":3}\n" {
		t.Errorf("%q, %v", text, err)
	}
	var got state
	if found, err := ReadJSON(root.FS(), "state.json", &got); !found || err != nil || got.N != 3 {
		t.Errorf("ReadJSON: %v, %v, %+v", found, err, got)
	}
	if err := New(root, nil).WriteJSON("state.json", make(chan int), 0o600); err == nil {
		t.Error("no error for a value without JSON")
	}
}
