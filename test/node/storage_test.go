package node

import (
	"fmt"
	"net"
	"testing"

	"github.com/go-git/go-billy/v5/memfs"
	"github.com/go-git/go-billy/v5/util"
	"github.com/willscott/go-nfs"
	"github.com/willscott/go-nfs/helpers"
)

// mountsNFS mounts a directory of an NFS server, which runs beside the test.
func mountsNFS(t *testing.T, n *node) {
	n.t = t
	files := memfs.New()
	if err := util.WriteFile(files, "greeting", []byte("hello\n"), 0o644); err != nil {
		t.Fatal(err)
	}

	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}

	served := make(chan error)
	handler := helpers.NewCachingHandler(helpers.NewNullAuthHandler(files), 1024)
	go func() { served <- nfs.Serve(l, handler) }()
	defer func() {
		l.Close()
		<-served
	}()

	port := l.Addr().(*net.TCPAddr).Port
	n.sh("mkdir -p /run/nfs")
	n.sh(fmt.Sprintf("mount -t nfs -o vers=3,nolock,tcp,port=%d,mountport=%[1]d 10.0.2.2:/mount /run/nfs", port))
	n.want("cat /run/nfs/greeting", "hello")
	n.want("findmnt -no FSTYPE /run/nfs", "nfs")
	n.sh("umount /run/nfs")

	// Version 4 has its own port and no lock daemon. That nobody listens is
	// said by the kernel's client.
	n.want("mount -t nfs4 127.0.0.1:/ /run/nfs 2>&1 | grep -c 'Connection refused'", "1")
}

// usesISCSI logs in to a target of the kernel's own, and makes a file system on
// its disk. The name of the initiator is the node's own.
func usesISCSI(t *testing.T, n *node) {
	n.t = t
	const target = "iqn.2025-01.test:disk"
	n.sh("modprobe -a target_core_mod target_core_file iscsi_target_mod")
	n.sh("mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config")
	n.sh("truncate -s 64M /var/tmp/disk; cd /sys/kernel/config/target")
	n.sh("mkdir -p core/fileio_0/disk iscsi/" + target + "/tpgt_1")
	n.sh("echo fd_dev_name=/var/tmp/disk,fd_dev_size=67108864 >core/fileio_0/disk/control")
	n.sh("echo 1 >core/fileio_0/disk/enable; cd iscsi/" + target + "/tpgt_1")
	n.sh("mkdir lun/lun_0 np/127.0.0.1:3260; ln -s /sys/kernel/config/target/core/fileio_0/disk lun/lun_0/disk")
	n.sh("echo 0 >attrib/authentication; echo 1 >attrib/generate_node_acls")
	n.sh("echo 0 >attrib/demo_mode_write_protect; echo 1 >enable; cd /")

	n.want("systemctl is-active iscsid.service; true", "inactive")
	// The first command says that nothing of iSCSI is loaded yet, and loads it.
	n.want("iscsiadm -m discovery -t sendtargets -p 127.0.0.1 2>/dev/null",
		"127.0.0.1:3260,1 "+target)
	n.sh("iscsiadm -m node --login")
	disk := "/dev/disk/by-path/ip-127.0.0.1:3260-iscsi-" + target + "-lun-0"
	n.sh("until test -b " + disk + "; do sleep 0.2; done; mkfs.ext4 -q " + disk)
	n.sh("mkdir -p /run/iscsi; mount " + disk + " /run/iscsi; echo hello >/run/iscsi/greeting")
	n.sh("umount /run/iscsi; iscsiadm -m node --logout")
	n.want("grep -c hello /var/tmp/disk", "1")

	name := "InitiatorName=iqn.2025-01.io.github.loam-os:"
	n.wantBegin("cat /etc/iscsi/initiatorname.iscsi", name)
	n.want("grep -c $(cat /etc/machine-id) /etc/iscsi/initiatorname.iscsi; true", "0")
	n.sh("rm /var/tmp/disk")
}
