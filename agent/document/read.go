package document

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

// maxRead is the most that is read of a document, in bytes. It is far more than
// MaxSize, so that what is too long is still named with its true size.
const maxRead = 64 << 20

// ReadFile reads the document in a file that an operator names. A device or pipe
// that never ends is refused.
func ReadFile(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()

	text, err := Read(path, file)
	if errors.Is(err, syscall.EISDIR) {
		return nil, hint.With(err, "name a file in it")
	}
	return text, err
}

// Read reads the document in r. name is for the error if it is too long.
func Read(name string, r io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxRead+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxRead {
		return nil, hint.With(
			fault.With(
				fmt.Errorf("%s: more than %d MiB", name, maxRead>>20), fault.DocumentInvalid,
			),
			"a document has at most %d bytes; is this the right file?", MaxSize)
	}
	return text, nil
}
