# Becomes systemd, process 1 of a container whose root is an overlay of $1 and
# of a tmpfs on $2. Run by container.go in new mount, PID, UTS, network, cgroup
# and IPC namespaces; it checks that it is process 1 before it mounts anything.
set -eu
[ $$ = 1 ]
tree=$1 scratch=$2
mount --make-rprivate /
mount -t tmpfs -o mode=0755 tmpfs "$scratch"
mkdir "$scratch/upper" "$scratch/work" "$scratch/root"
cd "$scratch/root"
mount -t overlay -o "lowerdir=$tree,upperdir=$scratch/upper,workdir=$scratch/work" overlay .
cd "$scratch/root"
mount -t proc proc proc
mount -t sysfs sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
for dir in dev run tmp; do mount -t tmpfs -o mode=0755 tmpfs "$dir"; done
# Nodes of its own, as systemd changes the mode and the owner of its console: of a
# node that is bound here, it would be this machine's that changes.
mknod -m 0666 dev/null c 1 3
mknod -m 0666 dev/zero c 1 5
mknod -m 0666 dev/full c 1 7
mknod -m 0666 dev/random c 1 8
mknod -m 0666 dev/urandom c 1 9
mknod -m 0666 dev/tty c 5 0
# All that is written to it is gone.
mknod -m 0600 dev/console c 1 3
mkdir dev/pts dev/shm run/notify
mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
ln -s pts/ptmx dev/ptmx
mount --bind "$3" run/notify
: >etc/machine-id
# The tree has the agent's unit without its program. A test that brings one starts it: a
# start that systemd tries, and tries again, would be in its way.
rm -f usr/lib/systemd/system/sysinit.target.wants/loam-agent.service
pivot_root . .
umount -l .
# As a booted machine has it: credentials of units are mounted by a child.
mount --make-rshared /
exec env -i container=other NOTIFY_SOCKET=/run/notify/socket PATH=/usr/sbin:/usr/bin \
	/usr/lib/systemd/systemd --unit=basic.target
