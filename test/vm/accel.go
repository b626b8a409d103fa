package vm

import (
	"context"
	"os"
	"regexp"
	"time"
)

// Accelerator chooses KVM only where the processor can do it and a quick trial
// passes: some machines have a /dev/kvm that answers, and guests that hang.
// boots tries a kernel with KVM for the time it is given.
func Accelerator(
	ctx context.Context, arch, hostArch string, boots func(context.Context) bool,
) string {
	cpuinfo, err := os.ReadFile("/proc/cpuinfo")
	if err != nil || arch != hostArch || !mayVirtualize(hostArch, string(cpuinfo)) {
		return "tcg"
	}

	kvm, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0)
	if err != nil {
		return "tcg"
	}

	kvm.Close()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()

	if !boots(ctx) {
		return "tcg"
	}

	return "kvm"
}

var virtualization = regexp.MustCompile(`(?m)^flags\s*:.*\b(vmx|svm)\b`)

// mayVirtualize asks the processor flags; arm64 has none for it, so only the
// trial tells.
func mayVirtualize(arch, cpuinfo string) bool {
	return arch == "arm64" || virtualization.MatchString(cpuinfo)
}
