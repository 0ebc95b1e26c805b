#!/bin/sh
# The first process of a VM: makes a root that can be written to, mounts the machine's directories, runs the command, and leaves its exit code.
# /media is the directory that the VM shares with `cargo xtask vm`.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
if [ "$1" != inside ]; then
  # User Mode Linux starts again after a panic; the command must not.
  [ ! -e /media/started ] || busybox poweroff -f
  : >/media/started
  mount -n -t proc proc /proc
  modprobe overlay
  mount -n -t tmpfs -o size=50% tmpfs /mnt
  mkdir /mnt/upper /mnt/work /mnt/root
  mount -n -t overlay -o lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work overlay /mnt/root
  for tree in /proc /media; do mount -n --move $tree /mnt/root$tree; done
  cd /mnt/root && pivot_root . mnt && exec chroot . sh /media/init inside
fi
umount -l /mnt
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /dev/pts /dev/shm /run/lock /run/rpc_pipefs
mount -t devpts devpts /dev/pts
mount -t tmpfs tmpfs /dev/shm
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t securityfs securityfs /sys/kernel/security
ln -sf /proc/self/fd /dev/fd; ln -sf fd/0 /dev/stdin; ln -sf fd/1 /dev/stdout; ln -sf fd/2 /dev/stderr
# As systemd does, and kubelet needs.
mount --make-rshared /
ip link set lo up
# An NFS server knows its clients by their host names.
hostname "vm${VM_NUMBER:-}"; echo "127.0.0.1 localhost vm${VM_NUMBER:-}" >/etc/hosts; : >/etc/fstab
if [ -n "$VM_NUMBER" ]; then
  ip address add "10.0.0.$VM_NUMBER/24" dev vec0 && ip link set vec0 up
fi
# A real disk for what tests write: an overlay can be neither exported nor frozen, and has no quota. It is a new sparse file: nobody need write zeros
# over its journal and its tables of inodes, 260 MB.
[ "$VM_BOOT" != 1 ] || mkfs.ext4 -q -E lazy_itable_init=1,lazy_journal_init=1,nodiscard /dev/ubda
mount -o noinit_itable /dev/ubda /tmp && chmod 1777 /tmp
# The format of quotas is no dependency of ext4.
modprobe -a loop quota_v2
while read -r mode directory; do
  mkdir -p "$directory"
  mount -t hostfs -o "$mode,$directory" hostfs "$directory"
done </media/shares
if [ "$VM_SELINUX" = 1 ]; then
  mount -t selinuxfs selinuxfs /sys/fs/selinux
  load_policy
fi
stty -F /dev/ttyS0 raw -echo
export HOME=/root LANG=C.UTF-8 TERM=dumb WASMOUNT_VM="${VM_NUMBER:-1}" WASMOUNT_VM_BOOT="$VM_BOOT"
# Tests of hundreds of hosts open as many files as a service may (systemd's DefaultLimitNOFILE).
ulimit -n 524288
# A command that a time limit ends may hang: where do its threads wait?
(
  until [ -e /media/tasks-asked ]; do sleep 10; done
  { ps -eLo pid,tid,stat,time,args; grep -s "" /proc/[0-9]*/task/[0-9]*/stack; } >/media/tasks.unfinished
  mv /media/tasks.unfinished /media/tasks
) </dev/null >/dev/null 2>&1 &
setsid sh /media/command </dev/null >/dev/ttyS0 2>&1
echo $? >/media/status
# Not a whole sync, and no unmount: the command may have left mounts that hang, and all is thrown away.
sync -f /media/status
busybox poweroff -f
