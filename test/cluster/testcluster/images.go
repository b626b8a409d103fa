package testcluster

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/loam-os/loam/test/cluster"
)

// Registry is the name that references begin with, which the node's
// configuration leads to the test cluster's registry.
const Registry = "registry.test"

// Greet says whose container it is in, and stays. It is what pods run, and as
// pause what keeps them.
const Greet = `package main

import (
	"fmt"
	"os"
	"time"
)

func main() {
	fmt.Println("hello from", os.Getenv("HOSTNAME"))
	time.Sleep(1 << 62)
}
`

// Web is a web server that says in whose container it is, with the files of the
// directory /node. With a URL as its argument it is a client that asks until it
// has an answer, prints that, and stays, or ends if there is a second argument.
const Web = `package main

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"time"
)

func main() {
	if len(os.Args) < 2 {
		http.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintln(w, "hello from", os.Getenv("HOSTNAME"))
		})
		http.Handle("/node/", http.FileServer(http.Dir("/")))
		log.Fatal(http.ListenAndServe(":8080", nil))
	}
	for {
		text, err := get(os.Args[1])
		if err == nil {
			fmt.Print(text)
			if len(os.Args) > 2 {
				return
			}
			time.Sleep(1 << 62)
		}
		fmt.Fprintln(os.Stderr, err)
		time.Sleep(time.Second)
	}
}

func get(url string) (string, error) {
	client := http.Client{Timeout: 10 * time.Second}
	response, err := client.Get(url)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s", response.Status)
	}
	return string(text), err
}
`

// pushImages fills the registry: each image is one program of its own name.
func (f *Fixture) pushImages(ctx context.Context, kubelet string) error {
	program, err := os.ReadFile(kubelet)
	if err != nil {
		return err
	}

	wait, err := Program(ctx, f.Arch, Greet)
	if err != nil {
		return err
	}

	for name, content := range map[string][]byte{"kubelet": program, "pause": wait, "hello": wait} {
		files := cluster.Layer{name: {Content: content, Mode: 0o755}}
		image := cluster.Image{
			Arch:       f.Arch,
			Layers:     []cluster.Layer{files},
			Entrypoint: []string{"/" + name},
		}
		if _, err := f.Registry.PushImage(name+":v1", image); err != nil {
			return err
		}
	}

	return nil
}

// Program builds a Go program, for a processor as GOARCH names it, without
// anything it would need at run time.
func Program(ctx context.Context, arch, text string) ([]byte, error) {
	dir, err := os.MkdirTemp("", "loam")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)

	source := filepath.Join(dir, "main.go")
	program := filepath.Join(dir, "program")

	if err := os.WriteFile(source, []byte(text), 0o644); err != nil {
		return nil, err
	}

	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o",
		program, source)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOARCH="+arch)
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build a program for %s: %w\n%s", arch, err, out)
	}

	return os.ReadFile(program)
}
