// Package meter follows long work with files. A [Part] counts the bytes that pass
// it, reports how many they are, and ends the work with its context.
package meter

import (
	"context"
	"io"
	"sync"
)

// Report is called with the name of a part of the work, such as "verify", the number
// of bytes done, and their total. A part ends when both are the same.
type Report func(part string, done, all int64)

// None reports nothing.
func None(string, int64, int64) {}

// Part is one part of the work. It is an [io.Writer] for io.TeeReader and
// io.MultiWriter that counts what is written to it. Several goroutines may use it.
type Part struct {
	ctx    context.Context
	name   string
	all    int64
	report Report

	mu   sync.Mutex // held while report is called
	done int64
}

// Begin begins a part with that many bytes.
func Begin(ctx context.Context, name string, all int64, report Report) *Part {
	return &Part{
		ctx:    ctx,
		name:   name,
		all:    all,
		report: report,
	}
}

// Write implements [io.Writer]. Its error is the error of the context.
func (p *Part) Write(b []byte) (int, error) {
	if err := p.Add(int64(len(b))); err != nil {
		return 0, err
	}
	return len(b), nil
}

// Add counts n bytes. Its error is the error of the context.
func (p *Part) Add(n int64) error {
	return p.set(func(done int64) int64 { return done + n })
}

// Reach counts at least done bytes. Its error is the error of the context.
func (p *Part) Reach(done int64) error {
	return p.set(func(before int64) int64 { return max(before, done) })
}

func (p *Part) set(change func(done int64) int64) error {
	if err := p.ctx.Err(); err != nil {
		return err
	}

	p.mu.Lock()
	defer p.mu.Unlock()
	p.done = min(change(p.done), p.all)
	p.report(p.name, p.done, p.all)
	return nil
}

// ReaderAt returns a reader of r that counts what is read.
func (p *Part) ReaderAt(r io.ReaderAt) io.ReaderAt { return readerAt{r, p} }

type readerAt struct {
	from io.ReaderAt
	part *Part
}

// ReadAt implements [io.ReaderAt].
func (r readerAt) ReadAt(b []byte, off int64) (int, error) {
	n, err := r.from.ReadAt(b, off)
	if ended := r.part.Add(int64(n)); ended != nil {
		return 0, ended
	}
	return n, err
}
