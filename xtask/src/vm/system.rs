//! The root file systems of the VMs: a kernel, and Debian with what the tests of storage need on it; and a Ceph of one node, with Debian 13's programs,
//! since older ones lack the REST API of subvolumes. In it is a cluster that was made once, and stopped. `tests/src/ceph.rs` starts it.

use crate::bootstrap::RootFilesystem;
use crate::failure::Failure;
use crate::files;
use crate::say;
use crate::workspace::Workspace;
use std::fs;
use std::path::PathBuf;

/// The packages: first the kernel and what every VM needs, then the tools of file systems, then iSCSI with its paths and NVMe, then NFS and Kerberos, then
/// SELinux.
const ROOT: RootFilesystem<'_> = RootFilesystem {
    name: "the VMs' system",
    format: "directory",
    suite: None,
    variant: "minbase",
    architecture: None,
    packages: &[
        "user-mode-linux",
        "busybox-static",
        "iproute2",
        "kmod",
        "procps",
        "udev",
        "attr",
        "bsdutils",
        "btrfs-progs",
        "cryptsetup-bin",
        "e2fsprogs",
        "fdisk",
        "genisoimage",
        "lvm2",
        "mount",
        "openssl",
        "quota",
        "squashfs-tools",
        "strace",
        "util-linux",
        "xfsprogs",
        "multipath-tools",
        "open-iscsi",
        "nvme-cli",
        "nfs-common",
        "nfs-kernel-server",
        "krb5-admin-server",
        "krb5-kdc",
        "policycoreutils",
        "selinux-policy-default",
        "selinux-utils",
    ],
    hooks: &[MODULES, NVME, CONTAINER_FILE],
    expected: include_str!("packages.txt"),
};

/// A Ceph.
const CEPH: RootFilesystem<'_> = RootFilesystem {
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

/// Debian has the modules of User Mode Linux elsewhere than modprobe(8) looks for them.
const MODULES: &str = r#"ln -s uml/modules "$1/usr/lib/modules""#;

/// NVMe over TCP, which Debian's User Mode Linux lacks.
const NVME: &str = include_str!("nvme.sh");

/// The type of the files of containers, which the runtimes' policy has (container-selinux), and Debian's lacks.
const CONTAINER_FILE: &str = r#"echo '(type container_file_t) (roletype object_r container_file_t)
(typeattributeset cil_gen_require file_type) (typeattributeset file_type (container_file_t))' >"$1/root/container.cil" &&
chroot "$1" semodule --noreload --install /root/container.cil"#;

/// The kernel, which is a program.
pub(super) const KERNEL: &str = "usr/bin/linux.uml";

/// The directory of the VMs' system; created first if it is missing.
pub fn build(workspace: &Workspace) -> Result<PathBuf, Failure> {
    make_once(workspace, &ROOT, "root")
}

/// The directory of Ceph's root file system; created first if it is missing.
pub fn build_ceph(workspace: &Workspace) -> Result<PathBuf, Failure> {
    make_once(workspace, &CEPH, "ceph")
}

/// The directory of a root file system, whose name begins with `prefix`; created first if it is missing.
fn make_once(
    workspace: &Workspace,
    root: &RootFilesystem<'_>,
    prefix: &str,
) -> Result<PathBuf, Failure> {
    let directory = workspace.vm();
    let path = directory.join(format!("{prefix}-{}", root.digest()?));
    if path.is_dir() {
        return Ok(path);
    }
    let _turn = files::wait_for_turn(&directory)?;
    if path.is_dir() {
        return Ok(path);
    }
    say::line(&format!(
        "building {} by mmdebstrap (two minutes, once)",
        root.name
    ));
    let unfinished = directory.join("unfinished");
    // Of an interrupted run.
    let _ = fs::remove_dir_all(&unfinished);
    root.make(&unfinished, &path)?;
    fs::rename(&unfinished, &path)
        .map_err(Failure::cannot(format!("rename {}", unfinished.display())))?;
    Ok(path)
}
