package main

import (
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"debug/elf"
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/loam-os/loam/image"
	"github.com/loam-os/loam/image/bundle"
	"github.com/loam-os/loam/image/manifest"
	"github.com/loam-os/loam/image/update"
	"github.com/loam-os/loam/test/cluster/upstream"
	"github.com/loam-os/loam/test/keys"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"loamctl": main, "sign-with": signWith})
}

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
			"disk-image":          diskImage,
			"certificate":         func(ts *testscript.TestScript, _ bool, a []string) { certificate(t, ts, a) },
			"public-only":         publicOnly,
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

// diskImage writes a disk image, the first argument, whose ESP has the machine.yaml
// that is the second.
func diskImage(ts *testscript.TestScript, _ bool, args []string) {
	_, err := writeDisk(ts.MkAbs(args[0]), ts.ReadFile(args[1]))
	ts.Check(err)
}

// certificate makes a key and its certificate, NAME.key and NAME.pem.
func certificate(t *testing.T, ts *testscript.TestScript, args []string) {
	pair := keys.New(t, args[0])
	ts.Check(os.Rename(pair.KeyFile, ts.MkAbs(args[0]+".key")))
	ts.Check(os.Rename(pair.CertificateFile, ts.MkAbs(args[0]+".pem")))
}

// publicOnly moves the keys of a directory, the first argument, to the second, and
// leaves the public ones.
func publicOnly(ts *testscript.TestScript, _ bool, args []string) {
	public, private := ts.MkAbs(args[0]), ts.MkAbs(args[1])
	ts.Check(os.Rename(public, private))
	ts.Check(os.Mkdir(public, 0o755))
	files, err := filepath.Glob(filepath.Join(private, "*.pem"))
	ts.Check(err)
	for _, file := range files {
		key, err := readKey(file)
		ts.Check(err)
		der, err := x509.MarshalPKIXPublicKey(key.Public())
		ts.Check(err)
		text := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
		ts.Check(os.WriteFile(filepath.Join(public, filepath.Base(file)), text, 0o644))
	}
}

// signWith is the command of --signer: it signs its standard input with the key of
// that name in a directory, its argument.
func signWith() {
	key, err := readKey(filepath.Join(os.Args[1], os.Getenv("LOAM_KEY")+".pem"))
	var message []byte
	if err == nil {
		message, err = io.ReadAll(os.Stdin)
	}
	if err == nil {
		_, err = os.Stdout.Write(ed25519.Sign(key, message))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// readKey reads a private key.
func readKey(file string) (ed25519.PrivateKey, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("%s: not PEM", file)
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	private, is := key.(ed25519.PrivateKey)
	if !is {
		return nil, fmt.Errorf("%s: not ed25519", file)
	}
	return private, nil
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
