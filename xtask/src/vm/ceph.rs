//! A Ceph of one node for tests in VMs: a root file system of its own with Debian 13's Ceph, since older ones lack the REST API of subvolumes, and in it
//! a cluster that was made once, and stopped. `tests/src/ceph.rs` starts it.

use super::system::make_once;
use crate::bootstrap::RootFilesystem;
use crate::failure::Failure;
use crate::workspace::Workspace;
use std::path::PathBuf;

const ROOT: RootFilesystem<'_> = RootFilesystem {
    name: "Ceph",
    format: "directory",
    suite: Some("trixie"),
    variant: "minbase",
    architecture: None,
    packages: &[
        "ceph-common",
        "ceph-mds",
        "ceph-mgr",
        "ceph-mgr-dashboard",
        "ceph-mon",
        "ceph-osd",
        "iproute2",
    ],
    hooks: &[include_str!("ceph/prepare.sh")],
    expected: include_str!("ceph/packages.txt"),
};

/// The directory of its root file system; created first if it is missing.
pub fn build_ceph(workspace: &Workspace) -> Result<PathBuf, Failure> {
    make_once(workspace, &ROOT, "ceph", "two minutes")
}
