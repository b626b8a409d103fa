package generation

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"testing"
)

// TestDigestOfADirectoryStaysTheSame: nodes have directories of that name.
func TestDigestOfADirectoryStaysTheSame(t *testing.T) {
	file := Entry{
		Path:   "/a/\"b é\n",
		Kind:   KindFile,
		Mode:   0o644 | fs.ModeSetuid,
		Digest: "d1",
	}
	plain := Entry{
		Path:   "/a/c",
		Kind:   KindFile,
		Mode:   0o40,
		Digest: "d2",
	}
	all := trees([]Entry{file, plain})

	inner := fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "file %q %04o %s\nfile %q %04o %s\n",
		"\"b é\n", 0o4644, "d1", "c", 0o40, "d2")))[:treeDigits]
	root := fmt.Sprintf("%x",
		sha256.Sum256(fmt.Appendf(nil, "dir %q %s\n", "a", inner)))[:treeDigits]
	if len(all) != 2 || all[0].digest != inner || all[1].digest != root {
		t.Errorf("%+v, want %s and %s", all, inner, root)
	}
}
