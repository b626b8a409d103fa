package redact

import "io"

// Writer writes to another writer, without the passwords of URLs. Each Write must
// have a text as a whole, such as a line of a log: a URL that is cut in two stays
// as it is.
type Writer struct{ To io.Writer }

// Write implements [io.Writer].
func (w Writer) Write(text []byte) (int, error) {
	if _, err := io.WriteString(w.To, URLs(string(text))); err != nil {
		return 0, err
	}
	return len(text), nil
}
