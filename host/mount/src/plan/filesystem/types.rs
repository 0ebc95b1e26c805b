//! Types of file systems by name: which are never mounted, whatever was granted, and which are one and the same to the kernel.
//!
//! It is apart because it is a list to be read and argued about. A type that is not in it is the administrator's to grant: file systems from
//! outside the kernel's tree have names of their own. It must not know sources or options.

/// Why a type is refused even if it is granted.
pub(crate) fn never_mounted(fs_type: &str) -> Option<&'static str> {
    match fs_type {
        "ext2" | "ext3" | "ext4" | "xfs" | "btrfs" | "bcachefs" | "f2fs" | "jfs" | "nilfs2"
        | "reiserfs" | "gfs2" | "ocfs2" | "vfat" | "msdos" | "exfat" | "ntfs" | "ntfs3" | "hfs"
        | "hfsplus" | "iso9660" | "udf" | "squashfs" | "erofs" | "cramfs" | "romfs" | "minix"
        | "zonefs" => Some(
            "it lies on a block device; use the step `device` or `image`, which check the device",
        ),
        "tmpfs" | "ramfs" | "hugetlbfs" => {
            Some("it lies in the node's memory; use the step `tmpfs`, which bounds it")
        }
        "proc" | "sysfs" | "devtmpfs" | "devpts" | "debugfs" | "tracefs" | "securityfs"
        | "selinuxfs" | "smackfs" | "configfs" | "efivarfs" | "pstore" | "bpf" | "cgroup"
        | "cgroup2" | "cpuset" | "resctrl" | "mqueue" | "nsfs" | "binfmt_misc" | "xenfs"
        | "functionfs" | "nfsd" | "rpc_pipefs" | "sockfs" | "pipefs" => {
            Some("it shows the node itself, not storage")
        }
        "autofs" => Some("it needs a daemon that mounts below it"),
        _ if fs_type.starts_with("fuse") => {
            Some("it needs a daemon, which would end with the host; run it beside the host")
        }
        _ => None,
    }
}

/// A name for both of two types that the kernel mounts by the same code: it shows an `nfs` of version 4 as `nfs4`.
pub(crate) fn family(fs_type: &str) -> &str {
    match fs_type {
        "nfs4" => "nfs",
        "smb3" => "cifs",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_every_kernel_has_built_in_is_never_mounted() {
        // `/proc/filesystems` of a kernel without network clients, but for overlay.
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
}
