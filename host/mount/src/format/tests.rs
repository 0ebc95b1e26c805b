//! Real tools on real loop devices, in a mount namespace that ends with the test.

mod blank;
mod checked;
mod grown;
mod interrupted;
mod refused;
mod shared;
mod stale;

use super::*;
use crate::block::DeviceNumber;
use crate::kernel::{judges_each_option, mounts_copies, mounts_exclusively};
use crate::namespace::{in_a_namespace, take_off};
use crate::observe::observe;
use rustix::fs::{FallocateFlags, fallocate, stat};
use rustix::mount::{MountAttrFlags, MoveMountFlags, UnmountFlags, move_mount, unmount};
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::Command;
use wasmount_core::names::{DriverName, VolumeId};

const MIB: u64 = 1 << 20;
/// The smallest size that all three types accept: `mkfs.xfs` requires 300 MiB.
const SIZE: u64 = 320 * MIB;
const RW: StorageAccess = StorageAccess::ReadWrite;
const FLAGS: MountFlags = MountFlags {
    set: MountAttrFlags::MOUNT_ATTR_NODEV,
    clear: MountAttrFlags::empty(),
};

struct Bench {
    directory: PathBuf,
    durable: Durable,
    key: VolumeKey,
    source: Source,
}

/// An image file on a loop device. It is detached when this value is dropped.
struct Disk {
    image: PathBuf,
    device: BlockDevice,
}

/// Runs a test in its own mount namespace, so that no other process sees its mounts.
fn privileged(test: impl FnOnce(&Bench) + Send + 'static) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_owned();
    in_a_namespace(move || {
        test(&Bench {
            durable: Durable::open(&path.join("state")).unwrap(),
            key: VolumeKey {
                driver: DriverName::parse("a.example").unwrap(),
                volume: VolumeId::parse("volume_id", "v").unwrap(),
            },
            source: Source::Image {
                pool: "pool".to_owned(),
                path: "v".to_owned(),
            },
            directory: path,
        });
    });
}

impl Bench {
    fn formatting(&self) -> Formatting<'_> {
        Formatting {
            durable: &self.durable,
            key: &self.key,
            source: &self.source,
        }
    }

    fn intent(&self, disk: &Disk, fs_type: FsType, uuid: Uuid) -> FormatIntent {
        format_intent(&self.source, &disk.device, fs_type.name(), uuid).unwrap()
    }

    fn mount(&self, disk: &Disk, fs_type: FsType) -> Result<OwnedFd, MountError> {
        self.mount_as(disk, &requested(fs_type), RW)
    }

    fn mount_as(
        &self,
        disk: &Disk,
        requested: &BlockFilesystem,
        access: StorageAccess,
    ) -> Result<OwnedFd, MountError> {
        self.formatting()
            .mount(&disk.device, requested, access, FLAGS)
    }

    fn disk(&self, bytes: u64) -> Disk {
        let image = self.directory.join("image");
        File::create(&image).unwrap().set_len(bytes).unwrap();
        Disk::attach(&image, &[])
    }

    /// A device of the same bytes.
    fn copy(&self, disk: &Disk) -> Disk {
        let image = disk.image.with_extension("copy");
        run("cp", &["--sparse=always", text(&disk.image), text(&image)]);
        Disk::attach(&image, &[])
    }
}

impl Disk {
    fn attach(image: &Path, options: &[&str]) -> Self {
        let arguments = [options, &["--find", "--show", text(image)]].concat();
        let path = PathBuf::from(run("losetup", &arguments).trim());
        let number = stat(&path).unwrap().st_rdev;
        Self {
            image: image.to_owned(),
            device: BlockDevice {
                file: File::open(&path).unwrap().into(),
                number: DeviceNumber::of_raw(number),
                backing: Some(observe(File::open(image).unwrap()).unwrap().identity),
                storage: None,
                is_read_only: options.contains(&"--read-only"),
                path,
            },
        }
    }

    fn path(&self) -> &str {
        text(&self.device.path)
    }

    /// The path, for a program that writes to the device. A child that another test has just forked may hold a mount until its exec.
    fn free_path(&self) -> &str {
        mount::require_free(&self.device).unwrap();
        self.path()
    }

    fn resize(&self, bytes: u64) {
        File::options()
            .write(true)
            .open(&self.image)
            .unwrap()
            .set_len(bytes)
            .unwrap();
        run("losetup", &["--set-capacity", self.path()]);
    }

    fn write(&self, at: u64, bytes: &[u8]) {
        mount::require_free(&self.device).unwrap();
        let file = File::options().write(true).open(&self.device.path).unwrap();
        file.write_all_at(bytes, at).unwrap();
        file.sync_all().unwrap();
    }

    /// Changes a byte to another value: a checksum may have any value.
    fn flip(&self, at: u64) {
        let mut byte = [0];
        let file = File::open(&self.device.path).unwrap();
        file.read_exact_at(&mut byte, at).unwrap();
        self.write(at, &[!byte[0]]);
    }

    fn wipe(&self) {
        mount::require_free(&self.device).unwrap();
        let file = File::options().write(true).open(&self.image).unwrap();
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        fallocate(&file, flags, 0, self.device.size_bytes().unwrap()).unwrap();
        run("blockdev", &["--flushbufs", self.path()]);
    }

    /// Digest of the data on the disk: ext4 changes its superblock in memory, even if it never writes it.
    fn digest(&self) -> Vec<u8> {
        mount::require_free(&self.device).unwrap();
        run("blockdev", &["--flushbufs", self.path()]);
        let mut file = File::open(&self.image).unwrap();
        let mut hash = Sha256::new();
        let zeros = vec![0; MIB as usize];
        let mut buffer = zeros.clone();
        for block in 0_u64.. {
            let count = file.read(&mut buffer).unwrap();
            if count == 0 {
                break;
            }
            // Most of the disk is zeros.
            if buffer[..count] != zeros[..count] {
                hash.update(block.to_le_bytes());
                hash.update(&buffer[..count]);
            }
        }
        hash.finalize().to_vec()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // It is still mounted, so the kernel detaches it when the last user closes it.
        let _ = Command::new("losetup").args(["-d", self.path()]).output();
    }
}

fn requested(wanted: FsType) -> BlockFilesystem {
    BlockFilesystem {
        fs_type: wanted,
        is_named: true,
        options: FsType::ALL.map(|it| (it, Vec::new())).into(),
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .unwrap_or_else(|error| panic!("{program} is missing: install it ({error})"));
    assert!(
        output.status.success(),
        "{program} {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

/// A path into a detached mount.
fn inside(mount: &OwnedFd, name: &str) -> PathBuf {
    Path::new("/proc/self/fd")
        .join(mount.as_raw_fd().to_string())
        .join(name)
}

fn put(mount: &OwnedFd, name: &str, content: &str) {
    let mut file = File::create(inside(mount, name)).unwrap();
    file.write_all(content.as_bytes()).unwrap();
    file.sync_all().unwrap();
}

fn get(mount: &OwnedFd, name: &str) -> String {
    fs::read_to_string(inside(mount, name)).unwrap()
}

fn capacity(mount: &OwnedFd) -> u64 {
    let found = rustix::fs::fstatfs(mount).unwrap();
    found.f_blocks * u64::try_from(found.f_bsize).unwrap()
}

#[test]
fn a_number_of_a_superblock_is_read_whole_or_absent() {
    let bytes = [1, 2, 3, 4, 5, 6, 7, 8];
    assert_eq!(le16(&bytes, 1), Some(0x0302));
    assert_eq!(le32(&bytes, 4), Some(0x0807_0605));
    assert_eq!(le64(&bytes, 0), Some(0x0807_0605_0403_0201));
    assert_eq!(
        (le16(&bytes, 7), le32(&bytes, 5), le64(&bytes, 9)),
        (None, None, None)
    );
}
