//! A disk for one test, as a file: its file system is mounted over a host's directory, can be frozen, and can lose its power.

use crate::loop_devices;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use xtask::command;
use xtask::failure::Failure;

/// The backing file.
const IMAGE: &str = "disk";

/// Smallest file that a loop device takes, in bytes.
const SECTOR: usize = 512;

/// How long another process may keep the disk: a test in a separate namespace.
const PATIENCE: Duration = Duration::from_secs(60);

/// Pause between two checks.
const LOOK: Duration = Duration::from_millis(20);

/// Mounted until this is dropped.
#[derive(Debug)]
pub struct LoopDisk {
    image: PathBuf,
    path: PathBuf,
    options: &'static str,
    _folder: TempDir,
}

/// Frozen until this is dropped.
#[derive(Debug)]
pub struct Frozen<'a> {
    path: &'a Path,
}

impl LoopDisk {
    /// Creates a disk of this many bytes (sparse) and mounts it over a directory.
    pub fn mount(path: &Path, bytes: u64) -> Result<Self, Failure> {
        Self::mount_as("ext4", path, bytes)
    }

    /// The same with another file system: `xfs` and `btrfs` share blocks.
    pub fn mount_as(file_system: &str, path: &Path, bytes: u64) -> Result<Self, Failure> {
        Self::with_options(file_system, path, bytes, &[], "loop")
    }

    /// The same with project quotas, for ext4 and xfs.
    pub fn with_project_quota(file_system: &str, path: &Path, bytes: u64) -> Result<Self, Failure> {
        let features: &[_] = match file_system {
            "ext4" => &["-O", "quota,project", "-E", "quotatype=prjquota"],
            _ => &[],
        };
        Self::with_options(file_system, path, bytes, features, "loop,prjquota")
    }

    fn with_options(
        file_system: &str,
        path: &Path,
        bytes: u64,
        features: &[&str],
        options: &'static str,
    ) -> Result<Self, Failure> {
        let folder = tempfile::tempdir().map_err(Failure::cannot("make a temporary directory"))?;
        // As the kernel will name it.
        let root = folder.path().canonicalize();
        let image = root
            .map(|root| root.join(IMAGE))
            .map_err(Failure::cannot("resolve the temporary directory"))?;
        File::create(&image)
            .and_then(|file| file.set_len(bytes))
            .map_err(Failure::cannot(format!("make {}", image.display())))?;
        let mut make = Command::new(format!("mkfs.{file_system}"));
        make.arg("-q");
        if file_system == "ext4" {
            // No questions, though a file is not a block device.
            make.arg("-F");
        }
        command::read(make.args(features).arg(&image))?;
        let disk = Self {
            image,
            path: path.to_owned(),
            options,
            _folder: folder,
        };
        disk.attach()?;
        Ok(disk)
    }

    /// From now on nothing is written to the disk, not even cached data (`EXT4_GOING_FLAGS_NOLOGFLUSH`); all access fails.
    pub fn cut_power(&self) -> Result<(), Failure> {
        let mut shutdown = Command::new("xfs_io");
        shutdown.args(["-x", "-c", "shutdown"]).arg(&self.path);
        command::read(&mut shutdown).map(drop)
    }

    /// From now on every write waits, until the returned value is dropped (fsfreeze(8)); reads do not.
    pub fn freeze(&self) -> Result<Frozen<'_>, Failure> {
        command::read(Command::new("fsfreeze").arg("--freeze").arg(&self.path))?;
        Ok(Frozen { path: &self.path })
    }

    /// Mounts the disk again with what was written to it. No process may use it any more.
    pub fn power_up(&self) -> Result<(), Failure> {
        let start = Instant::now();
        // A child of another test that has not yet called execve(2) has copies of this process's descriptors.
        while let Err(failure) = command::read(Command::new("umount").arg(&self.path)) {
            if start.elapsed() > PATIENCE {
                return Err(failure);
            }
            thread::sleep(LOOK);
        }
        // A mount namespace that was created meanwhile has a copy of the mount. As long as there is a copy, a new mount would be the dead one again.
        while !loop_devices::backed_below(&self.image)?.is_empty() {
            if start.elapsed() > PATIENCE {
                return Err(Failure::Unexpected(format!(
                    "{} is still mounted somewhere",
                    self.path.display()
                )));
            }
            thread::sleep(LOOK);
        }
        // Devices get new numbers at every boot: another file system has the number now.
        let place_holder = self.image.with_extension("other");
        fs::write(&place_holder, [0; SECTOR])
            .map_err(Failure::cannot(format!("write {}", place_holder.display())))?;
        let mut take = Command::new("losetup");
        let taken = command::read(take.args(["--find", "--show"]).arg(&place_holder))?;
        let attached = self.attach();
        command::read(Command::new("losetup").args(["--detach", taken.trim()]))?;
        attached
    }

    fn attach(&self) -> Result<(), Failure> {
        let mut mount = Command::new("mount");
        mount.args(["-o", self.options]);
        mount.arg(&self.image).arg(&self.path);
        command::read(&mut mount).map(drop)
    }
}

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        let _ = command::read(Command::new("fsfreeze").arg("--unfreeze").arg(self.path));
    }
}

impl Drop for LoopDisk {
    fn drop(&mut self) {
        // Loop devices that a failed test left on its files would keep them in use, and never be removed: after the unmount they have no path below
        // this one any more.
        let _ = loop_devices::detach_below(&self.path);
        // Lazily: a host of a failed test may still run, and must not keep it mounted.
        let _ = command::read(Command::new("umount").arg("--lazy").arg(&self.path));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::namespace;
    use crate::root::needs_root;

    /// Size of the disk, in bytes.
    const BYTES: u64 = 16 << 20;

    #[test]
    fn privileged_a_removed_disk_takes_its_loop_devices_along() {
        needs_root();
        namespace::enter();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap();
        let disk = LoopDisk::mount(&path, BYTES).unwrap();
        let file = path.join("volume");
        File::create(&file)
            .and_then(|file| file.set_len(1 << 20))
            .unwrap();
        let mut attach = Command::new("losetup");
        let device = command::read(attach.args(["--find", "--show"]).arg(&file)).unwrap();
        let name = Path::new(device.trim()).file_name().unwrap();
        assert_eq!(
            loop_devices::backed_below(&path).unwrap(),
            [name.to_str().unwrap()]
        );
        drop(disk);
        // Without its mount the file's name is relative to the root of the disk.
        let backing = Path::new("/sys/block").join(name).join("loop/backing_file");
        let left = fs::read_to_string(backing).unwrap_or_default();
        assert_ne!(left.trim_end(), "/volume");
    }
}
