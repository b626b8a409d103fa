// Command validate judges OperatingSystemConfigs as Gardener's own admission of
// them does. It reads JSON documents from standard input, one a line, and
// writes a line for each: "accepted", or why it is refused.
package main

import (
	"bufio"
	"fmt"
	"os"
	"strings"

	"github.com/gardener/gardener/pkg/api/extensions/validation"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "validate:", err)
		os.Exit(1)
	}
}

func run() error {
	scheme := runtime.NewScheme()
	if err := extensionsv1alpha1.AddToScheme(scheme); err != nil {
		return err
	}

	// As gardener-node-agent: fields that it does not know are left out.
	decoder := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme,
		json.SerializerOptions{})

	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 16<<20)

	out := bufio.NewWriter(os.Stdout)
	for lines.Scan() {
		_, err := fmt.Fprintln(out, verdict(decoder, lines.Bytes()))
		if err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}

	return out.Flush()
}

// verdict is the answer to one document.
func verdict(decoder runtime.Decoder, text []byte) string {
	var osc extensionsv1alpha1.OperatingSystemConfig
	_, _, err := decoder.Decode(text, nil, &osc)
	if err == nil {
		err = validation.ValidateOperatingSystemConfig(&osc).ToAggregate()
	}
	if err != nil {
		return "refused: " + strings.ReplaceAll(err.Error(), "\n", " ")
	}
	return "accepted"
}
