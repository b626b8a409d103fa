package main

import (
	"bytes"
	"io"
	"sync"
)

// locked is a writer for stages that run side by side.
type locked struct {
	mutex sync.Mutex
	w     io.Writer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.w.Write(p)
}

// prefixed writes whole lines with a prefix, and leaves out empty ones.
type prefixed struct {
	w      io.Writer
	prefix string
	rest   []byte
}

func (p *prefixed) Write(text []byte) (int, error) {
	p.rest = append(p.rest, text...)
	for {
		line, rest, isWhole := bytes.Cut(p.rest, []byte("\n"))
		if !isWhole {
			return len(text), nil
		}

		err := p.writeLine(line)
		if err != nil {
			return 0, err
		}
		p.rest = rest
	}
}

// flush writes a last line without an end.
func (p *prefixed) flush() {
	// Best effort: what failed to be written is in the log of the stage.
	_ = p.writeLine(p.rest)
	p.rest = nil
}

func (p *prefixed) writeLine(line []byte) error {
	if len(bytes.TrimSpace(line)) == 0 {
		return nil
	}

	_, err := p.w.Write([]byte(p.prefix + string(line) + "\n"))
	return err
}
