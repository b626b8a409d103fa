package main

import (
	"context"
	"errors"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/test/keys"
	"github.com/loam-os/loam/test/terminal"
)

func TestPlanRefusesAKeyWithTheCertificateOfAnother(t *testing.T) {
	one := keys.New(t, "one")
	two := keys.New(t, "two")

	for _, test := range []struct{ name, key, certificate, want string }{
		{"its own", one.KeyFile, one.CertificateFile, ""},
		{"another's", one.KeyFile, two.CertificateFile, "it belongs to another key"},
		{"none", one.KeyFile, "", "one without the other"},
		{"no key", "", one.CertificateFile, "one without the other"},
		{"a token, which is not opened", "pkcs11:token=loam", one.CertificateFile, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			cmd := buildCommand()
			cmd.SilenceErrors = true
			cmd.SilenceUsage = true
			cmd.SetOut(io.Discard)
			cmd.SetArgs([]string{"--plan", "--source", "../..", "--sign-key", test.key,
				"--sign-certificate", test.certificate})
			err := cmd.Execute()
			if (err == nil) != (test.want == "") ||
				(err != nil && !strings.Contains(err.Error(), test.want)) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}

// Ctrl-C at the question for a PIN ends it, and leaves a terminal that shows what
// is typed.
func TestReadPIN(t *testing.T) {
	for _, tt := range []struct {
		name, typed, want string
		err               error
	}{
		{"a PIN", "1234\n", "1234", nil},
		{"an interruption", "", "", context.Canceled},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tty := terminal.Open(t, 80, 25)
			signals := make(chan os.Signal, 1)
			ended := make(chan error)
			var pin []byte
			go func() {
				var err error
				pin, err = readPIN(tty.Program, signals)
				ended <- err
			}()

			for echoes(t, tty.Program) {
				runtime.Gosched()
			}
			if _, err := tty.User.WriteString(tt.typed); err != nil {
				t.Fatal(err)
			}
			if tt.err != nil {
				signals <- os.Interrupt
			}
			if err := <-ended; !errors.Is(err, tt.err) || string(pin) != tt.want {
				t.Errorf("%q, %v, want %q, %v", pin, err, tt.want, tt.err)
			}
			if !echoes(t, tty.Program) {
				t.Error("the terminal does not show what is typed")
			}
		})
	}
}

// echoes reports whether a terminal shows what is typed.
func echoes(t *testing.T, terminal *os.File) bool {
	t.Helper()
	state, err := unix.IoctlGetTermios(int(terminal.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	return state.Lflag&unix.ECHO != 0
}
