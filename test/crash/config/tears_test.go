package config_test

import (
	"errors"
	"os"
	"path"
	"path/filepath"
)

// tear makes of a name what a broken disk makes of it.
type tear struct {
	name string
	do   func(root *os.Root, name string) error
}

// becomes rewrites a file in place: hard links to it see that.
func becomes(of func(text []byte) []byte) func(*os.Root, string) error {
	return func(root *os.Root, name string) error {
		text, err := root.ReadFile(name)
		if err != nil {
			return err
		}
		return root.WriteFile(name, of(text), 0)
	}
}

// instead takes the name away and puts something else there.
func instead(put func(root *os.Root, name string) error) func(*os.Root, string) error {
	return func(root *os.Root, name string) error {
		return errors.Join(
			root.Remove(name),
			put(root, name),
		)
	}
}

func leadsTo(target string) func(*os.Root, string) error {
	return instead(func(root *os.Root, name string) error { return root.Symlink(target, name) })
}

var (
	missing = tear{"missing", (*os.Root).Remove}
	tears   = []tear{
		missing,
		{"truncated", becomes(func(text []byte) []byte { return text[:len(text)/2] })},
		{"empty", becomes(func([]byte) []byte { return nil })},
		{"all zeros", becomes(func(text []byte) []byte { return make([]byte, len(text)) })},
		{"garbage", becomes(func([]byte) []byte { return []byte("}\x00\xff../../x\n{") })},
	}
	misled = []tear{
		missing,
		{"dangling", leadsTo("../../generations/000009-0123456789ab")},
		{"leading to a name of no generation", leadsTo("x")},
		{
			"a file",
			instead(func(root *os.Root, name string) error {
				return root.WriteFile(name,
					[]byte("x"), 0o644)
			}),
		},
		{
			"a directory",
			instead(func(root *os.Root, name string) error {
				return root.MkdirAll(name+"/x",
					0o755)
			}),
		},
	}
	lost = []tear{{"missing", func(root *os.Root, name string) error {
		dir, err := filepath.EvalSymlinks(path.Join(root.Name(), name))
		return errors.Join(err, os.RemoveAll(dir))
	}}}
)
