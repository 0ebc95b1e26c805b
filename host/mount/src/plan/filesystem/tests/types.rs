//! Types that are never mounted.

use super::*;

#[test]
fn what_every_kernel_has_built_in_is_never_mounted() {
    // `/proc/filesystems` of a kernel without network file systems, except overlay.
    let built_in = "sysfs tmpfs proc cgroup cgroup2 cpuset devtmpfs binfmt_misc debugfs tracefs securityfs sockfs bpf pipefs ramfs \
                    hugetlbfs devpts ext3 ext2 ext4 squashfs autofs fuseblk fuse fusectl xfs erofs mqueue btrfs pstore";
    for fs_type in built_in.split_ascii_whitespace() {
        assert!(never_mounted(fs_type).is_some(), "{fs_type}");
    }
}

#[test]
fn what_brings_storage_from_elsewhere_may_be_granted() {
    for fs_type in [
        "nfs", "nfs4", "cifs", "smb3", "ceph", "9p", "virtiofs", "overlay", "lustre",
    ] {
        assert_eq!(never_mounted(fs_type), None, "{fs_type}");
    }
}
