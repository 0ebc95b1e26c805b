//! Programs that a command needs, and the Debian packages that contain them: installed as root on Debian, else named in one line.

use crate::command;
use crate::failure::Failure;
use crate::say;
use std::env;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempPath;

/// A program and the Debian package that contains it: the file name of the program, or for other files, the whole path.
pub type Need = (&'static str, &'static str);

/// Programs of the demo: `unshare` for a run without root, `setpriv` so that the driver ends when its starter is killed.
pub const DEMO: &[Need] = &[("setpriv", "util-linux"), ("unshare", "util-linux")];

/// Additional programs of the tests: file systems in a file, content that must never be formatted (partition tables, volumes of LVM, encrypted
/// devices, another file system), interrupted system calls (kill at any point), a registry and another client of it, a browser.
pub const TEST: &[Need] = &[
    ("setpriv", "util-linux"),
    ("unshare", "util-linux"),
    ("blkid", "util-linux"),
    ("blockdev", "util-linux"),
    ("fsfreeze", "util-linux"),
    ("mkswap", "util-linux"),
    ("mount", "mount"),
    ("losetup", "mount"),
    ("mkfs.ext4", "e2fsprogs"),
    ("debugfs", "e2fsprogs"),
    ("mkfs.xfs", "xfsprogs"),
    ("mkfs.btrfs", "btrfs-progs"),
    ("sfdisk", "fdisk"),
    ("pvcreate", "lvm2"),
    ("cryptsetup", "cryptsetup-bin"),
    ("mksquashfs", "squashfs-tools"),
    ("strace", "strace"),
    ("docker-registry", "docker-registry"),
    ("skopeo", "skopeo"),
    ("openssl", "openssl"),
    ("script", "bsdutils"),
    ("chromium", "chromium"),
    ("python3", "python3"),
    ("pip3", "python3-pip"),
    XZ,
    CLANG,
    WASM_LD,
    WASI_LIBC,
];

/// Programs of a cluster beside Kubernetes' own.
pub const CLUSTER: &[Need] = &[
    ("containerd", "containerd"),
    ("runc", "runc"),
    ("/usr/lib/cni/ptp", "containernetworking-plugins"),
    ("busybox", "busybox-static"),
    ("ip", "iproute2"),
    ("losetup", "mount"),
    ("nsenter", "util-linux"),
    ("unshare", "util-linux"),
];

/// Programs that make images.
pub const IMAGE: &[Need] = &[("mmdebstrap", "mmdebstrap"), ("strip", "binutils")];

/// Programs that make and start a virtual machine, and build modules of its kernel.
pub const VM: &[Need] = &[
    ("mmdebstrap", "mmdebstrap"),
    ("setpriv", "util-linux"),
    ("taskset", "util-linux"),
    ("unshare", "util-linux"),
    ("bc", "bc"),
    ("bison", "bison"),
    ("flex", "flex"),
    ("gcc", "gcc"),
    ("make", "make"),
    XZ,
];

/// What compresses golden guests.
pub const COMPRESSION: &[Need] = &[XZ];

/// Programs that build guests in C.
pub const C: &[Need] = &[CLANG, WASM_LD, WASI_LIBC];

const XZ: Need = ("xz", "xz-utils");
const CLANG: Need = ("clang", "clang");
const WASM_LD: Need = ("wasm-ld", "lld");
const WASI_LIBC: Need = ("/usr/lib/wasm32-wasi/libc.a", "wasi-libc");

/// Directories of system programs that are not in the PATH of an ordinary user.
const SYSTEM_DIRECTORIES: [&str; 2] = ["/usr/sbin", "/sbin"];

/// Packages ask this program whether they may start a daemon; 101 forbids it (`/usr/share/doc/init-system-helpers/README.policy-rc.d.gz`).
const POLICY: &str = "/usr/sbin/policy-rc.d";

/// Installs the missing packages, or reports what to install.
pub fn install(needs: &[Need]) -> Result<(), Failure> {
    let packages = missing(needs, &search_path());
    if packages.is_empty() {
        return Ok(());
    }
    let list = packages.join(" ");
    let by_hand = || {
        Failure::missing(
            format!("Debian packages: {list}"),
            format!("`apt-get install {list}` as root, or the like of your distribution"),
        )
    };
    if !rustix::process::geteuid().is_root() {
        return Err(by_hand());
    }
    say::line(&format!("installing by apt-get: {list}"));
    let _policy = forbid_daemons();
    let apt = |arguments: &[&str]| {
        command::read(
            Command::new("apt-get")
                .env("DEBIAN_FRONTEND", "noninteractive")
                .args(arguments),
        )
    };
    let install = [&["install", "--yes", "--no-install-recommends"], &*packages].concat();
    // The package lists of a fresh image are empty or old: they are fetched only when the first attempt fails.
    apt(&install)
        .or_else(|_| apt(&["update"]).and_then(|_| apt(&install)))
        .map_err(|_| by_hand())?;
    Ok(())
}

/// While the file exists, a package with a daemon does not start it (invoke-rc.d(8)): only the program is needed, not a change of the machine. None if
/// the machine has a policy of its own, which is kept.
fn forbid_daemons() -> Option<TempPath> {
    let mut options = File::options();
    let options = options.write(true).create_new(true).mode(0o755);
    let mut file = options.open(POLICY).ok()?;
    let policy = TempPath::try_from_path(POLICY).ok()?;
    file.write_all(b"#!/bin/sh\nexit 101\n").ok()?;
    Some(policy)
}

/// The packages of all programs that are in none of the directories, without duplicates.
fn missing(needs: &[Need], directories: &[PathBuf]) -> Vec<&'static str> {
    let mut packages: Vec<_> = needs
        .iter()
        .filter(|(program, _)| !directories.iter().any(|it| it.join(program).is_file()))
        .map(|(_, package)| *package)
        .collect();
    packages.sort_unstable();
    packages.dedup();
    packages
}

fn search_path() -> Vec<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain(SYSTEM_DIRECTORIES.map(|it| Path::new(it).to_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn what_is_there_is_not_asked_for() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("strace"), "").unwrap();
        let needs = [("strace", "strace")];
        assert!(missing(&needs, &[directory.path().to_owned()]).is_empty());
    }

    #[test]
    fn two_programs_of_one_package_ask_for_it_once() {
        let directory = tempfile::tempdir().unwrap();
        let needs = [("mount", "mount"), ("losetup", "mount")];
        assert_eq!(missing(&needs, &[directory.path().to_owned()]), ["mount"]);
    }
}
