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
for node in null zero full random urandom tty; do
	: >"dev/$node"
	mount --bind "/dev/$node" "dev/$node"
done
: >dev/console
mount --bind /dev/null dev/console
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
