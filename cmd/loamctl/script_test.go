package main

import (
	"crypto/sha256"
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/loam-os/loam/image"
	"github.com/loam-os/loam/image/bundle"
	"github.com/loam-os/loam/image/manifest"
	"github.com/loam-os/loam/image/update"
	"github.com/loam-os/loam/test/cluster/upstream"
)

func TestMain(m *testing.M) { testscript.Main(m, map[string]func(){"loamctl": main}) }

// TestScripts runs commands as an operator would type them, and compares their
// output. `make golden` writes the output into the scripts.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       os.Getenv("LOAM_GOLDEN") != "",
		Setup: func(env *testscript.Env) error {
			signed, err := filepath.Abs("../../firmware/authenticode/testdata/signed.efi")
			env.Setenv("SIGNED", signed)
			return err
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"update-bundle":       updateBundle,
			"kubernetes-upstream": kubernetesUpstream,
		},
		Condition: func(cond string) (bool, error) {
			if cond != "root" {
				return false, fmt.Errorf("condition %s: not known", cond)
			}
			return os.Geteuid() == 0, nil
		},
	})
}

// updateBundle gives the build in a directory its update bundle, as loamctl
// build does.
func updateBundle(ts *testscript.TestScript, _ bool, args []string) {
	file := filepath.Join(ts.MkAbs(args[0]), image.ManifestName)
	m, err := manifest.Decode([]byte(ts.ReadFile(file)))
	ts.Check(err)
	base, err := bundle.Base(m.ImageID, m.Version, m.Arch)
	ts.Check(err)
	ts.Check(update.Write(filepath.Dir(file), base, bundle.Sources{
		ImageID:  m.ImageID,
		Version:  m.Version,
		Arch:     m.Arch,
		Profile:  m.Profile,
		RootHash: m.RootHash,
	}))

	pack := ts.ReadFile(filepath.Join(filepath.Dir(file), base+".pack"))
	m.Files = append(m.Files,
		manifest.File{
			Name:   base + ".pack",
			Size:   int64(len(pack)),
			SHA256: fmt.Sprintf("%x", sha256.Sum256([]byte(pack))),
		})

	text, err := m.Encode()
	ts.Check(err)
	ts.Check(os.WriteFile(file, text, 0o644))
}

// kubernetesUpstream fills a directory with the least that is Kubernetes 1.37.2.
func kubernetesUpstream(ts *testscript.TestScript, _ bool, args []string) {
	header := make([]byte, 64)
	copy(header, "\x7fELF\x02\x01\x01")
	header[16] = byte(elf.ET_EXEC)
	header[18] = byte(elf.EM_X86_64)
	header[20] = byte(elf.EV_CURRENT)

	programs := map[string]string{}
	for _, name := range append(bundle.KubernetesPrograms(), "pause", "coredns") {
		programs[name] = filepath.Join(ts.Getenv("WORK"), "program-"+name)
		ts.Check(os.WriteFile(programs[name], append(header, "v1.37.2 "+name...), 0o755))
	}
	ts.Check(upstream.Write(ts.MkAbs(args[0]), programs))
}
