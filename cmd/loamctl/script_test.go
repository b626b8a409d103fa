package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) { testscript.Main(m, map[string]func(){"loamctl": main}) }

// TestScripts runs what a person would type, and compares what is printed.
// `make golden` takes what is printed into the scripts.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata", RequireExplicitExec: true, RequireUniqueNames: true, UpdateScripts: os.Getenv("LOAM_GOLDEN") != "",
		Setup: func(env *testscript.Env) error {
			signed, err := filepath.Abs("../../firmware/authenticode/testdata/signed.efi")
			env.Setenv("SIGNED", signed)
			return err
		},
		Condition: func(cond string) (bool, error) {
			if cond != "root" {
				return false, fmt.Errorf("condition %s: not known", cond)
			}
			return os.Geteuid() == 0, nil
		},
	})
}
