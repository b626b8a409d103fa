package document

import "errors"

// placed is an error about a field of a document.
type placed struct {
	error
	path string
}

// Unwrap returns the error without the path.
func (p *placed) Unwrap() error { return p.error }

// At says which field of a document is the cause of an error that was found after
// the document was read. The text of the error stays the problem alone. It returns
// nil for nil.
func At(path string, err error) error {
	if err == nil {
		return nil
	}
	return &placed{err, path}
}

// PathOf returns the path that [At] has given an error last, "" if none.
func PathOf(err error) string {
	if p, is := errors.AsType[*placed](err); is {
		return p.path
	}
	return ""
}
