package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
)

const (
	// busyLoops keep both processors of the usual machine busy.
	busyLoops = 2
	// loadBlock is what is written before each fsync.
	loadBlock = 1 << 20
	// loadBlocks is the number of blocks of the file, written again and again.
	loadBlocks = 64
)

// startLoad starts this program as a load, which writes a file in dir. It ends
// with its standard input, and so with this process at the latest.
func startLoad(dir string) (stop func(), err error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}

	cmd := exec.Command(program, "load", dir)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	err = cmd.Start()
	if err != nil {
		return nil, err
	}

	return func() {
		stdin.Close()
		// Best effort: the load has no result.
		_ = cmd.Wait()
	}, nil
}

// load computes, and writes to the disk, until in ends.
func load(in io.Reader, args []string) error {
	if len(args) != 1 {
		return errors.New("load: want a directory")
	}
	path := filepath.Join(args[0], "load")
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer os.Remove(path)
	defer f.Close()

	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for range busyLoops {
		all.Go(func() { compute(ctx) })
	}
	var writeErr error
	all.Go(func() { writeErr = write(ctx, f) })

	_, err = io.Copy(io.Discard, in)
	cancel()
	all.Wait()
	return errors.Join(err, writeErr)
}

// compute keeps a processor busy until ctx ends.
func compute(ctx context.Context) {
	sum := sha256.Sum256(nil)
	for ctx.Err() == nil {
		sum = sha256.Sum256(sum[:])
	}
}

// write writes a file, each block through to the disk, until ctx ends.
func write(ctx context.Context, f *os.File) error {
	block := make([]byte, loadBlock)
	for i := int64(0); ctx.Err() == nil; i++ {
		_, err := f.WriteAt(block, i%loadBlocks*loadBlock)
		if err != nil {
			return err
		}
		err = f.Sync()
		if err != nil {
			return err
		}
	}

	return nil
}
