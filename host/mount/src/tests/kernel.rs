//! What the running kernel can do. A test whose outcome depends on that states the outcome of both kinds of kernels.

use crate::fs_type::FsType;
use rustix::mount::{
    FsOpenFlags, fsconfig_create_exclusive, fsconfig_set_flag, fsconfig_set_string, fsopen,
};
use std::os::fd::OwnedFd;
use std::path::Path;

fn context(fs_type: &str) -> OwnedFd {
    fsopen(fs_type, FsOpenFlags::FSOPEN_CLOEXEC).unwrap()
}

/// Whether it judges each mount option of a type when it is set, and says which it does not know: overlay since Linux 6.5, btrfs since 6.8. Before,
/// all of them are one string that it reads when it mounts.
pub(crate) fn judges_each_option(fs_type: &str) -> bool {
    fsconfig_set_string(context(fs_type), "no_such_option", "1").is_err()
}

/// Whether it can refuse a file system that is mounted already: since Linux 6.6.
pub(crate) fn mounts_exclusively() -> bool {
    fsconfig_create_exclusive(context("tmpfs")).is_ok()
}

/// Whether it mounts two file systems with one UUID: btrfs since Linux 6.7. The file system must have been used before.
pub(crate) fn mounts_copies(fs_type: FsType) -> bool {
    fs_type != FsType::Btrfs || Path::new("/sys/fs/btrfs/features/temp_fsid").exists()
}

/// Whether it can keep a tmpfs out of swap space: since Linux 6.4.
pub(crate) fn knows_noswap() -> bool {
    fsconfig_set_flag(context("tmpfs"), "noswap").is_ok()
}
