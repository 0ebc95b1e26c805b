//! Finds what is wrong at one path of a volume: its mount by descriptor, its file system by `statfs` and one read of its root, its device by sysfs,
//! its image in the pool.

use super::Place;
use super::findings::{Finding, SuperBlock, is_failure};
use crate::block::{BlockRecord, DeviceNumber, loop_device, node_device};
use crate::confine::open_confined;
use crate::encryption;
use crate::failure::{exhausted, kernel};
use crate::fs_type::FsType;
use crate::journal::Shows;
use crate::mountinfo;
use crate::node::Node;
use crate::observe::{
    Identity, Observation, Seen, SeenMount, inspect, is_removed, mount_id, observe,
};
use crate::plan::{CheckedSource, Form, PoolPlace};
use crate::sysfs::{SYS, entries};
use rustix::fs::{Dir, Mode, OFlags, StatVfsMountFlags, fstatvfs, openat};
use rustix::io::Errno;
use std::fs;
use std::path::Path;
use wasmount_core::mounter::MountError;

/// Contains one directory for each mounted ext4, named after its device.
const EXT4: &str = "/sys/fs/ext4";
/// The same, with the options of each as the mount table shows them, one on a line.
const EXT4_OPTIONS: &str = "/proc/fs/ext4";
/// Contains one directory for each mounted btrfs, named by its UUID.
const BTRFS: &str = "/sys/fs/btrfs";

impl Node {
    /// All findings at a path, those of the device first.
    pub(super) fn findings(&self, place: &Place) -> Result<Vec<Finding>, MountError> {
        let root = self.root(place)?;
        let mut found = match &place.block {
            Some(block) => device(block, place)?,
            None => Vec::new(),
        };
        found.extend(root);
        Ok(found)
    }

    fn root(&self, place: &Place) -> Result<Option<Finding>, MountError> {
        let (identity, is_raw) = match place.shows {
            // The host mounts no file system of a raw block volume.
            Shows::Device(_) => return Ok(None),
            Shows::Node(identity) => (identity, true),
            Shows::Mount(identity) => (identity, false),
        };
        let Some(location) = self.roots.check_text(&place.path)?.locate()? else {
            return Ok(Some(Finding::MountLost));
        };
        match inspect(&location)? {
            Seen::Corrupted(errno) => Ok(Some(Finding::IoError(errno))),
            Seen::Mounted(mount) if mount.identity == identity => match is_raw {
                true => Ok(None),
                false => mounted(&mount, place),
            },
            _ => Ok(Some(Finding::MountLost)),
        }
    }
}

fn mounted(mount: &SeenMount, place: &Place) -> Result<Option<Finding>, MountError> {
    let path = &place.path;
    let is_directory = matches!(place.source, Some(CheckedSource::Directory(_)));
    // Only for trees of a pool: the root of a whole file system may have a link count of 0, as FUSE servers often report.
    if is_directory && is_removed(&mount.root).map_err(|errno| kernel("statx", path, errno))? {
        return Ok(Some(Finding::DirectoryGone));
    }
    let answer = fstatvfs(&mount.root).and_then(|answer| read(mount).map(|()| answer));
    let answer = match answer {
        Ok(answer) => answer,
        Err(errno) if is_failure(errno) => return Ok(Some(Finding::IoError(errno))),
        Err(errno) => return Err(kernel("statfs", path, errno)),
    };
    let is_read_only = answer.f_flag.contains(StatVfsMountFlags::RDONLY);
    let itself = super_block(mount, is_read_only, path)?;
    Ok(Finding::of_file_system(
        itself,
        is_read_only,
        place.is_read_only,
    ))
}

/// The state of the file system itself. For other file systems than ext4 that can be written to, no source contains more than `statfs`.
fn super_block(
    mount: &SeenMount,
    is_read_only: bool,
    path: &str,
) -> Result<SuperBlock, MountError> {
    let is_ext4 = FsType::of_mounted(&mount.root)? == Some(FsType::Ext4);
    if is_ext4 && let Some(options) = ext4_options(mount.identity) {
        return Ok(SuperBlock::parse(&options));
    }
    if !is_ext4 && !is_read_only {
        return Ok(SuperBlock::default());
    }
    // Slow where there are many mounts.
    let number = mount_id(&mount.root).map_err(|errno| kernel("statx", path, errno))?;
    let line = mountinfo::of_mount(number)?;
    Ok(line.map_or_else(SuperBlock::default, |line| {
        SuperBlock::parse(&line.super_options)
    }))
}

/// The options of a mounted ext4, whatever the number of mounts. `None`: the kernel does not list them.
fn ext4_options(identity: Identity) -> Option<String> {
    let name = DeviceNumber::of_file_system(identity).name(Path::new(SYS))?;
    fs::read_to_string(Path::new(EXT4_OPTIONS).join(name).join("options")).ok()
}

/// Reads the first entry of the root, because `statfs` alone is answered from memory.
fn read(mount: &SeenMount) -> Result<(), Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let read = openat(&mount.root, c".", flags, Mode::empty())
        .and_then(Dir::new)
        .and_then(|mut directory| directory.next().transpose());
    match read {
        Err(errno) if is_failure(errno) || exhausted(errno).is_some() => Err(errno),
        // A server may deny this host what its users may read.
        _ => Ok(()),
    }
}

fn device(block: &BlockRecord, place: &Place) -> Result<Vec<Finding>, MountError> {
    let listed = format!("/sys/dev/block/{}", block.number);
    if !Path::new(&listed).exists() {
        return Ok(vec![Finding::DeviceGone]);
    }
    match is_same(block, place) {
        Ok(true) => {}
        Ok(false) => return Ok(vec![Finding::DeviceGone]),
        Err(MountError::Kernel { errno, .. }) if is_failure(Errno::from_raw_os_error(errno)) => {
            return Ok(vec![Finding::IoError(Errno::from_raw_os_error(errno))]);
        }
        Err(error) => return Err(error),
    }
    let image = match (&place.source, block.backing) {
        (Some(CheckedSource::Image(image, _)), Some(backing)) => of_image(image, block, backing)?,
        _ => None,
    };
    let errors = match place.shows {
        Shows::Mount(_) => counted_errors(encryption::shown(block.number)).unwrap_or(0),
        // The host does not interpret the content of a raw block volume.
        Shows::Node(_) | Shows::Device(_) => 0,
    };
    Ok(Finding::of_device(image, errors))
}

/// Whether the number still belongs to the volume's device, because the kernel reuses numbers. A mount holds its own device.
fn is_same(block: &BlockRecord, place: &Place) -> Result<bool, MountError> {
    match &place.source {
        _ if block.backing.is_some() => loop_device::is_bound(block),
        Some(CheckedSource::Device(device, Form::Raw)) => {
            Ok(node_device::find(device)? == Some(block.number))
        }
        _ => Ok(true),
    }
}

/// The image behind a loop device, as its pool shows it. `None`: it is complete, or its state cannot be determined.
fn of_image(
    image: &PoolPlace,
    block: &BlockRecord,
    backing: Identity,
) -> Result<Option<Finding>, MountError> {
    if loop_device::is_backing_removed(block.number, image.path.name()) {
        return Ok(Some(Finding::ImageRemoved));
    }
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let pool = rustix::fs::open(&image.directory, flags | OFlags::DIRECTORY, Mode::empty());
    let Ok(pool) = pool else {
        return Ok(None);
    };
    let own = DeviceNumber::of_file_system(backing);
    let is_elsewhere = |of: &Observation| DeviceNumber::of_file_system(of.identity) != own;
    // The device is read before the image: when both are expanded, the image is expanded first.
    let device_bytes = block.number.size_bytes()?;
    let at_its_place = open_confined(&pool, image.path.as_str(), flags).and_then(observe);
    Ok(match at_its_place {
        Ok(file) if file.identity == backing => {
            let image_bytes = file.size_bytes;
            (image_bytes < device_bytes).then_some(Finding::ImageTruncated {
                image_bytes,
                device_bytes,
            })
        }
        // Another file system is mounted at the pool, which says nothing about the image.
        Ok(file) if is_elsewhere(&file) => None,
        Ok(_) => Some(Finding::ImageMoved),
        Err(Errno::NOENT | Errno::NOTDIR) if observe(&pool).is_ok_and(|it| !is_elsewhere(&it)) => {
            Some(Finding::ImageMoved)
        }
        Err(_) => None,
    })
}

/// Number of errors that the file system on a device has counted, as sysfs lists them (Documentation/ABI/testing/sysfs-fs-ext4, `errors_count`;
/// btrfs(5), `error_stats`). `None` if no file system is mounted, or if its type keeps no count, as xfs. Only sysfs is read, so storage is not accessed.
fn counted_errors(number: DeviceNumber) -> Option<u64> {
    let name = number.name(Path::new(SYS))?;
    if let Ok(count) = fs::read_to_string(Path::new(EXT4).join(&name).join("errors_count")) {
        return count.trim().parse().ok();
    }
    let mut file_systems = entries(Path::new(BTRFS)).map(|it| Path::new(BTRFS).join(it));
    let file_system = file_systems.find(|it| it.join("devices").join(&name).exists())?;
    let devices = file_system.join("devinfo");
    let listed = entries(&devices)
        .filter_map(|it| fs::read_to_string(devices.join(it).join("error_stats")).ok());
    Some(listed.fold(0, |total, lines| total.saturating_add(sum(&lines))))
}

/// The sum of the counts of lines with a name and a count each.
fn sum(lines: &str) -> u64 {
    let counts = lines.lines().filter_map(|line| line.split_once(' '));
    counts
        .filter_map(|(_, count)| count.trim().parse::<u64>().ok())
        .fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counts_of_a_btrfs_device_are_added_up() {
        let clean =
            "write_errs 0\nread_errs 0\nflush_errs 0\ncorruption_errs 0\ngeneration_errs 0\n";
        for (lines, expected) in [
            (clean, 0),
            ("write_errs 2\nread_errs 0\ncorruption_errs 40\n", 42),
            ("invalid\n", 0),
            ("", 0),
        ] {
            assert_eq!(sum(lines), expected, "{lines:?}");
        }
    }

    #[test]
    fn a_device_that_is_not_there_has_counted_none() {
        let (major, minor) = (u32::MAX, 0);
        assert_eq!(counted_errors(DeviceNumber { major, minor }), None);
    }
}
