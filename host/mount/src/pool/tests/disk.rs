//! File systems for single tests, each in its own mount namespace: whatever a test leaves ends with its thread.

use super::*;
use crate::namespace;
use rustix::mount::{MountFlags, UnmountFlags};
use std::cell::Cell;
use std::process::Command;

pub(super) const MIB: u64 = 1 << 20;

/// A file system on a loop device, or a tmpfs. It is unmounted when it is dropped.
pub(super) struct Disk {
    mounted: PathBuf,
    image: Option<tempfile::NamedTempFile>,
}

impl Disk {
    pub(super) fn in_memory(at: &Path, bytes: u64) -> Self {
        own_namespace();
        let options = std::ffi::CString::new(format!("size={bytes}")).unwrap();
        rustix::mount::mount("none", at, "tmpfs", MountFlags::empty(), options.as_c_str())
            .expect("mounting a tmpfs needs root (CAP_SYS_ADMIN)");
        Self {
            mounted: at.to_owned(),
            image: None,
        }
    }

    pub(super) fn on_loop(at: &Path, bytes: u64, mkfs: &[&str], options: &str) -> Self {
        own_namespace();
        let image = tempfile::NamedTempFile::new().unwrap();
        image.as_file().set_len(bytes).unwrap();
        run(Command::new(mkfs[0]).args(&mkfs[1..]).arg(image.path()));
        mount_image(image.path(), at, options);
        Self {
            mounted: at.to_owned(),
            image: Some(image),
        }
    }

    /// Stops all writes at once, as ext4 does when it detects an error.
    pub(super) fn make_read_only(&self) {
        run(Command::new("mount")
            .args(["-o", "remount,abort"])
            .arg(&self.mounted));
    }

    /// Unmounts, checks and mounts it again.
    pub(super) fn mend(&self) {
        rustix::mount::unmount(&self.mounted, UnmountFlags::DETACH).unwrap();
        let image = self.image.as_ref().unwrap().path();
        let code = Command::new("e2fsck").args(["-fy"]).arg(image).output();
        // 1: errors were corrected (e2fsck(8)).
        assert!(matches!(code.unwrap().status.code(), Some(0 | 1)));
        mount_image(image, &self.mounted, "");
    }
}

fn mount_image(image: &Path, at: &Path, options: &str) {
    let options = format!("loop,{options}");
    run(Command::new("mount")
        .args(["-o", options.trim_end_matches(',')])
        .arg(image)
        .arg(at));
}

/// Unshares the mount namespace of this thread and of the threads that it starts. A pool that was opened before does not see later mounts in it.
pub(super) fn own_namespace() {
    thread_local!(static IS_OWN: Cell<bool> = const { Cell::new(false) });
    if IS_OWN.replace(true) {
        return;
    }
    namespace::unshare();
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(&self.mounted, UnmountFlags::DETACH);
    }
}

pub(super) fn run(command: &mut Command) {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?} is missing: install it ({error})"));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?} needs root: {text}");
}

pub(super) fn fill(path: &Path) {
    use std::io::Write;
    let mut file = std::fs::File::create(path).unwrap();
    while file.write_all(&[1; 4096]).is_ok() {}
}

/// Whether this kernel was built with quotas for a file system, tested by mounting one.
pub(super) fn quotas_in(file_system: &str) -> bool {
    own_namespace();
    let image = tempfile::NamedTempFile::new().unwrap();
    image.as_file().set_len(320 * MIB).unwrap();
    let mkfs: &[&str] = match file_system {
        "ext4" => &[
            "mkfs.ext4",
            "-q",
            "-O",
            "quota,project",
            "-E",
            "quotatype=prjquota",
        ],
        _ => &["mkfs.xfs", "-q"],
    };
    run(Command::new(mkfs[0]).args(&mkfs[1..]).arg(image.path()));
    let at = tempfile::tempdir().unwrap();
    let mounted = Command::new("mount")
        .args(["-o", "loop,prjquota"])
        .arg(image.path())
        .arg(at.path())
        .output()
        .unwrap();
    if mounted.status.success() {
        rustix::mount::unmount(at.path(), UnmountFlags::DETACH).unwrap();
    }
    mounted.status.success()
}
