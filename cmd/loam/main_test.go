package main

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/hint"
)

func TestMessageHasEachHintOnce(t *testing.T) {
	for _, row := range []struct {
		name string
		err  error
		uid  int
		want string
	}{
		{
			name: "a hint beside the text, wrapped",
			err:  fmt.Errorf("apply: %w", hint.With(errors.New("disk full"), "make room")),
			want: "loam: apply: disk full\nhint: make room",
		},
		{
			name: "a hint in the text",
			err:  errors.New("disk full\nhint: make room"),
			want: "loam: disk full\nhint: make room",
		},
		{
			name: "no permission",
			err:  fmt.Errorf("read: %w", fs.ErrPermission),
			uid:  1000,
			want: "loam: read: permission denied\nhint: only root may",
		},
		{
			name: "no permission, as root",
			err:  fmt.Errorf("read: %w", fs.ErrPermission),
			want: "loam: read: permission denied",
		},
		{
			name: "no permission, with a hint beside the text",
			err:  hint.With(fs.ErrPermission, "run it as root"),
			uid:  1000,
			want: "loam: permission denied\nhint: run it as root",
		},
		{
			name: "no permission, with a hint in the text",
			err:  fmt.Errorf("read: %w; hint: run it as root", fs.ErrPermission),
			uid:  1000,
			want: "loam: read: permission denied; hint: run it as root",
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			if diff := cmp.Diff(row.want, message(row.err, row.uid)); diff != "" {
				t.Errorf("message (-want +have)\n%s", diff)
			}
		})
	}
}
