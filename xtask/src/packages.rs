//! Programs that a command needs, and the Debian packages that contain them: installed as root on Debian, else named in one line.

use crate::command;
use crate::failure::Failure;
use crate::say::Console;
use std::env;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A program and the Debian package that contains it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Need {
    /// The file name of the program; for other files, the whole path.
    pub program: &'static str,
    /// The Debian package.
    pub package: &'static str,
}

/// Programs of the demo: `unshare` for a run without root, `setpriv` so that the driver ends when its starter is killed.
pub const DEMO: &[Need] = &[need("setpriv", "util-linux"), need("unshare", "util-linux")];

/// Additional programs of the tests: file systems in a file, content that must never be formatted (partition tables, volumes of LVM, encrypted
/// devices, another file system), interrupted system calls (kill at any point), a registry and another client of it.
pub const TEST: &[Need] = &[
    need("setpriv", "util-linux"),
    need("unshare", "util-linux"),
    need("blkid", "util-linux"),
    need("blockdev", "util-linux"),
    need("fsfreeze", "util-linux"),
    need("mkswap", "util-linux"),
    need("mount", "mount"),
    need("losetup", "mount"),
    need("mkfs.ext4", "e2fsprogs"),
    need("debugfs", "e2fsprogs"),
    need("mkfs.xfs", "xfsprogs"),
    need("mkfs.btrfs", "btrfs-progs"),
    need("sfdisk", "fdisk"),
    need("pvcreate", "lvm2"),
    need("cryptsetup", "cryptsetup-bin"),
    need("mksquashfs", "squashfs-tools"),
    need("strace", "strace"),
    need("docker-registry", "docker-registry"),
    need("skopeo", "skopeo"),
    need("openssl", "openssl"),
    need("script", "bsdutils"),
    need("python3", "python3"),
    need("pip3", "python3-pip"),
    CLANG,
    WASM_LD,
    WASI_LIBC,
];

/// Programs of a cluster beside Kubernetes' own.
pub const CLUSTER: &[Need] = &[
    need("containerd", "containerd"),
    need("runc", "runc"),
    need("/usr/lib/cni/ptp", "containernetworking-plugins"),
    need("busybox", "busybox-static"),
    need("ip", "iproute2"),
    need("losetup", "mount"),
    need("nsenter", "util-linux"),
    need("unshare", "util-linux"),
];

/// Programs that make images.
pub const IMAGE: &[Need] = &[need("mmdebstrap", "mmdebstrap"), need("strip", "binutils")];

/// Programs that build guests in C.
pub const C: &[Need] = &[CLANG, WASM_LD, WASI_LIBC];

const CLANG: Need = need("clang", "clang");
const WASM_LD: Need = need("wasm-ld", "lld");
const WASI_LIBC: Need = need("/usr/lib/wasm32-wasi/libc.a", "wasi-libc");

/// Directories of system programs that are not in the PATH of an ordinary user.
const SYSTEM_DIRECTORIES: [&str; 2] = ["/usr/sbin", "/sbin"];

/// Packages ask this program whether they may start a daemon; 101 forbids it (`/usr/share/doc/init-system-helpers/README.policy-rc.d.gz`).
const POLICY: &str = "/usr/sbin/policy-rc.d";

const fn need(program: &'static str, package: &'static str) -> Need {
    Need { program, package }
}

/// Installs the missing packages, or reports what to install.
pub fn install(needs: &[Need], console: &Console) -> Result<(), Failure> {
    let packages = missing(needs, &search_path());
    if packages.is_empty() {
        return Ok(());
    }
    let list = packages.join(" ");
    let by_hand = || Failure::Missing {
        what: format!("Debian packages: {list}"),
        next: format!("`apt-get install {list}` as root, or the like of your distribution"),
    };
    if !rustix::process::geteuid().is_root() {
        return Err(by_hand());
    }
    console.line(&format!("installing by apt-get: {list}"));
    let _quiet = NothingStarts::begin();
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

/// While it lives, a package with a daemon does not start it (invoke-rc.d(8)): only the program is needed, not a change of the machine.
struct NothingStarts {
    /// Absent if the machine has a policy of its own, which is kept.
    policy: Option<&'static Path>,
}

impl NothingStarts {
    fn begin() -> Self {
        let policy = Path::new(POLICY);
        let written = File::options()
            .write(true)
            .create_new(true)
            .mode(0o755)
            .open(policy)
            .and_then(|mut file| file.write_all(b"#!/bin/sh\nexit 101\n"));
        Self {
            policy: written.is_ok().then_some(policy),
        }
    }
}

impl Drop for NothingStarts {
    fn drop(&mut self) {
        if let Some(policy) = self.policy {
            let _ = fs::remove_file(policy);
        }
    }
}

/// The packages of all programs that are in none of the directories, without duplicates.
fn missing(needs: &[Need], directories: &[PathBuf]) -> Vec<&'static str> {
    let mut packages: Vec<_> = needs
        .iter()
        .filter(|need| !directories.iter().any(|it| it.join(need.program).is_file()))
        .map(|need| need.package)
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

    #[test]
    fn what_is_there_is_not_asked_for() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("strace"), "").unwrap();
        let needs = [need("strace", "strace")];
        assert!(missing(&needs, &[directory.path().to_owned()]).is_empty());
    }

    #[test]
    fn two_programs_of_one_package_ask_for_it_once() {
        let directory = tempfile::tempdir().unwrap();
        let needs = [need("mount", "mount"), need("losetup", "mount")];
        assert_eq!(missing(&needs, &[directory.path().to_owned()]), ["mount"]);
    }
}
