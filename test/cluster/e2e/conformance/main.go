// Command conformance runs tests of Kubernetes' own end-to-end suite, as they are in
// its module, against a cluster.
//
//	conformance -kubeconfig FILE -tests FILE -report FILE
//
// The file of tests has the full name of one conformance test a line. The report has
// a line of JSON for each of them, as soon as it has ended.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"
	"github.com/onsi/gomega"
	conformance "k8s.io/kubernetes/test/conformance/testdata"
	_ "k8s.io/kubernetes/test/e2e"
	"k8s.io/kubernetes/test/e2e/framework"
	"k8s.io/kubernetes/test/e2e/framework/config"
	_ "k8s.io/kubernetes/test/e2e/framework/debug/init"
	_ "k8s.io/kubernetes/test/e2e/framework/node/init"
	"k8s.io/kubernetes/test/e2e/framework/testfiles"
	manifests "k8s.io/kubernetes/test/e2e/testing-manifests"
	fixtures "k8s.io/kubernetes/test/fixtures"
	"sigs.k8s.io/yaml"

	// The tests.
	_ "k8s.io/kubernetes/test/e2e/apimachinery"
	_ "k8s.io/kubernetes/test/e2e/apps"
	_ "k8s.io/kubernetes/test/e2e/architecture"
	_ "k8s.io/kubernetes/test/e2e/auth"
	_ "k8s.io/kubernetes/test/e2e/common"
	_ "k8s.io/kubernetes/test/e2e/dra"
	_ "k8s.io/kubernetes/test/e2e/instrumentation"
	_ "k8s.io/kubernetes/test/e2e/kubectl"
	_ "k8s.io/kubernetes/test/e2e/network"
	_ "k8s.io/kubernetes/test/e2e/node"
	_ "k8s.io/kubernetes/test/e2e/scheduling"
	_ "k8s.io/kubernetes/test/e2e/storage"
)

// suiteName is before the name of a test where ginkgo looks for those to run.
const suiteName = "conformance"

// Result is a line of the report. State is ginkgo's, such as passed or failed.
type Result struct {
	Name, State, Failure string
	Seconds              float64
}

// suite is what ginkgo tells of failures, in place of a testing.T.
type suite struct{ failed bool }

// Fail implements [ginkgo.GinkgoTestingT].
func (s *suite) Fail() { s.failed = true }

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	}
}

func run() error {
	tests := flag.String("tests", "", "file with the full name of a test a line")
	report := flag.String("report", "", "file to append a line of JSON for each test to")
	list := flag.Bool("list", false, "print the names of all conformance tests, and run none")
	config.CopyFlags(config.Flags, flag.CommandLine)
	framework.RegisterCommonFlags(flag.CommandLine)
	framework.RegisterClusterFlags(flag.CommandLine)
	flag.Parse()

	if *list {
		return printAll()
	}
	names, err := readLines(*tests)
	if err != nil {
		return err
	}
	out, err := os.OpenFile(*report, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer out.Close()

	for _, files := range []testfiles.EmbeddedFileSource{
		manifests.GetE2ETestingManifestsFS(),
		fixtures.GetTestFixturesFS(),
		conformance.GetConformanceTestdataFS(),
	} {
		testfiles.AddFileSource(files)
	}
	framework.AfterReadingAllFlags(&framework.TestContext)
	gomega.RegisterFailHandler(framework.Fail)

	var written error
	ginkgo.ReportAfterEach(func(r types.SpecReport) {
		if r.State.Is(types.SpecStateSkipped | types.SpecStatePending) {
			return
		}
		text, err := json.Marshal(Result{
			Name:    r.FullText(),
			State:   r.State.String(),
			Failure: r.FailureMessage(),
			Seconds: r.RunTime.Seconds(),
		})
		if err == nil {
			_, err = fmt.Fprintf(out, "%s\n", text)
		}
		written = errors.Join(written, err)
	})

	choice, reporter := ginkgo.GinkgoConfiguration()
	for _, name := range names {
		choice.FocusStrings = append(choice.FocusStrings,
			"^"+regexp.QuoteMeta(suiteName+" "+name)+"$")
	}
	var s suite
	ginkgo.RunSpecs(&s, suiteName, choice, reporter)
	if s.failed {
		return errors.New("a test failed")
	}
	return written
}

// printAll prints the full name of each conformance test of this version, one a line.
func printAll() error {
	files := conformance.GetConformanceTestdataFS()
	text, err := files.ReadTestFile("test/conformance/testdata/conformance.yaml")
	if err != nil {
		return err
	}
	var tests []struct{ Codename string }
	if err := yaml.Unmarshal(text, &tests); err != nil {
		return err
	}
	for _, test := range tests {
		fmt.Println(test.Codename)
	}
	return nil
}

func readLines(path string) ([]string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if lines[0] == "" {
		return nil, fmt.Errorf("%s names no test", path)
	}
	return lines, nil
}
