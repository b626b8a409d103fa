package tools

import (
	"context"
	"os/exec"
)

// Mount is a path of the host that a program of the tree sees at Path, and may
// write to.
type Mount struct{ Host, Path string }

// Command returns a command that runs the program name of the tree. It sees
// the tree read-only, fresh /tmp, /run and /root, the devices and the network
// of the host, and each path in binds, writable, at its own place. It dies
// with this process.
func (t Tree) Command(ctx context.Context, binds []string, name string, args ...string) *exec.Cmd {
	var mounts []Mount
	for _, path := range binds {
		mounts = append(mounts, Mount{Host: path, Path: path})
	}
	return t.CommandWith(ctx, mounts, name, args...)
}

// CommandWith is [Tree.Command] with paths of the host at other places.
func (t Tree) CommandWith(
	ctx context.Context, mounts []Mount, name string, args ...string,
) *exec.Cmd {
	argv := []string{
		"--ro-bind", t.Dir + "/usr", "/usr",
		"--ro-bind", t.Dir + "/etc", "/etc",
		"--ro-bind", t.Dir + "/var", "/var",
		"--symlink", "usr/bin", "/bin",
		"--symlink", "usr/sbin", "/sbin",
		"--symlink", "usr/lib", "/lib",
		"--symlink", "usr/lib64", "/lib64",
		"--dev-bind", "/dev", "/dev",
		"--proc", "/proc",
		"--ro-bind", "/sys", "/sys",
		"--tmpfs", "/tmp",
		"--tmpfs", "/run",
		"--tmpfs", "/root",
		"--tmpfs", "/var/tmp",
		"--ro-bind-try", "/etc/resolv.conf", "/etc/resolv.conf",
		"--die-with-parent",
		"--clearenv",
		"--setenv", "PATH", "/usr/sbin:/usr/bin",
		"--setenv", "HOME", "/root",
		"--setenv", "LC_ALL", "C.UTF-8",
	}

	for _, m := range mounts {
		argv = append(argv, "--bind", m.Host, m.Path)
	}

	argv = append(argv, "--", name)
	return exec.CommandContext(ctx, "bwrap", append(argv, args...)...)
}
