//! Determines without the journal which mounts and loop devices can belong to a driver: mounts of its pools, of a device or file system that it was
//! granted, or of files of a volume, and loop devices by their tags.
//!
//! A teardown without a record depends on it: the path may have another driver's volume, or a pod's own mount. It uses the mount table and the
//! kernel's list of loop devices, so mounted storage that hangs is not accessed.

use crate::block::loop_device::{self, Attached};
use crate::block::{BlockRecord, DeviceNumber, node_device};
use crate::encryption;
use crate::failure::kernel;
use crate::journal::{Entry, VolumePath};
use crate::kubelet_record;
use crate::mountinfo::{self, MountLine};
use crate::node::{Node, describe_volume};
use crate::observe::mount_id;
use crate::plan::filesystem::is_source_granted;
use crate::roots::{CheckedPath, open_root, real_path};
use crate::source::files::FILES_NAME;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use wasmount_core::document::{FilesystemGrant, Grants, PoolGrant};
use wasmount_core::mounter::{MountError, VolumeKey};
use wasmount_core::names::DriverName;
use wasmount_core::plan::Source;

/// The mounts of a driver's pools, according to the mount table.
pub(crate) struct Shown {
    /// Trees of the requested pool, relative to it.
    pub(crate) trees: Vec<String>,
    /// The driver's own records contain every mount of its pools. From now on the records alone are sufficient, because this host records its mounts.
    pub(crate) is_recorded: bool,
}

/// A raw block device that a volume left attached.
pub(crate) struct Kept {
    pub(crate) attached: Attached,
    /// It lies on an image of a pool, and not on a device of the node.
    pub(crate) lies_in_pool: bool,
}

/// The sources that mounts of one driver can have.
struct OwnSources {
    pools: Vec<PoolRoot>,
    filesystems: Vec<FilesystemGrant>,
    /// Block devices that belong to the volume or are granted to the driver.
    devices: Vec<DeviceNumber>,
}

/// A pool in the terms of the mount table.
struct PoolRoot {
    device: DeviceNumber,
    /// Path from the root of its file system.
    root: PathBuf,
    /// Path by which this process sees it.
    directory: PathBuf,
}

impl Node {
    /// Refuses to tear down mounts that no record of the volume names, unless all of them can belong to its driver or kubelet's record assigns the
    /// path to this volume: an earlier driver of the same name may have mounted it.
    pub(crate) fn refuse_foreign(
        &self,
        key: &VolumeKey,
        path: &CheckedPath,
    ) -> Result<(), MountError> {
        let entry = self.journal.entry(key);
        if entry.mounts().any(|(known, _)| known == path.text()) {
            return Ok(());
        }
        let Some(point) = path.in_mount_table()? else {
            return Ok(());
        };
        let table = mountinfo::read()?;
        let there: Vec<_> = table
            .iter()
            .filter(|line| line.mount_point == point)
            .collect();
        if there.is_empty() || kubelet_record::confirms(&self.roots, path.text(), key) {
            return Ok(());
        }
        let grants = self.grants_of(&key.driver);
        let mut own = OwnSources::of(&grants, &table);
        for device in there.iter().filter_map(|line| line.shown_device()) {
            let storage = encryption::storage_of(device);
            let is_own = match loop_device::status(storage)? {
                None => {
                    node_device::is_granted(&grants, storage)
                        || self.owner(&key.driver).has_attached(&grants, storage)
                }
                Some(attached) => match &attached.tag {
                    Some(tag) => tag.is_of(key),
                    // It may belong to an earlier driver.
                    None => loop_device::backing_path(storage).is_some_and(|it| own.hold_file(&it)),
                },
            };
            if is_own {
                own.devices.push(device);
            }
        }
        if there.iter().all(|line| own.include(line)) {
            return Ok(());
        }
        Err(MountError::in_use(
            path.text(),
            format!(
                "what is mounted there is not a mount of this driver: nothing that {} was granted is shown there, and neither the journal nor kubelet knows it as this volume's; unmount it by hand to remove it",
                key.driver
            ),
        ))
    }

    /// Raw block devices of a volume, found by their tags. Two hosts on one machine may have a driver and a volume with the same names, each in its
    /// own pools: only devices in a pool that was granted here count.
    pub(crate) fn kept_devices(&self, key: &VolumeKey) -> Result<Vec<Kept>, MountError> {
        let is_kept = |attached: &Attached| {
            !attached.autoclear && attached.tag.as_ref().is_some_and(|tag| tag.is_of(key))
        };
        let grants = self.grants_of(&key.driver);
        let own = OwnSources::of(&grants, &mountinfo::read()?);
        let mut places = own.directories();
        if !grants.devices.is_empty() {
            places.push(mountinfo::DEVICES.into());
        }
        let mut kept = loop_device::attached_below(&places)?;
        kept.retain(is_kept);
        let granted = kept.into_iter().filter_map(|attached| {
            let file = loop_device::backing_path(attached.number)?;
            let lies_in_pool = own.hold_file(&file);
            let device = mountinfo::number_of(&file);
            let is_device = device.is_some_and(|device| node_device::is_granted(&grants, device));
            (lies_in_pool || is_device).then_some(Kept {
                attached,
                lies_in_pool,
            })
        });
        Ok(granted.collect())
    }

    /// Whether a device can hold a volume of a driver: it was granted or attached, or it is the loop device of a file in one of its pools.
    pub(crate) fn may_hold_volume(
        &self,
        driver: &DriverName,
        device: DeviceNumber,
    ) -> Result<bool, MountError> {
        let grants = self.grants_of(driver);
        Ok(match loop_device::backing_path(device) {
            Some(file) => OwnSources::of(&grants, &mountinfo::read()?).hold_file(&file),
            None => {
                node_device::is_granted(&grants, device)
                    || self.owner(driver).has_attached(&grants, device)
            }
        })
    }

    /// Loop devices that an earlier driver of the same name left below a target: attached by `losetup` without our tag, on an image of a pool. Their
    /// nodes are mounted at a target that no record names, and kubelet's record assigns it to this volume. If such a device stayed attached, no later
    /// stage could use its image.
    pub(crate) fn earlier_devices(
        &self,
        key: &VolumeKey,
        path: &CheckedPath,
    ) -> Result<Vec<BlockRecord>, MountError> {
        let is_recorded = self.journal.entry(key).targets.contains_key(path.text());
        if is_recorded || !kubelet_record::confirms(&self.roots, path.text(), key) {
            return Ok(Vec::new());
        }
        let point = path.in_mount_table()?;
        let table = mountinfo::read()?;
        let own = OwnSources::of(&self.grants_of(&key.driver), &table);
        let there = table
            .iter()
            .filter(|line| Some(&line.mount_point) == point.as_ref());
        let mut left = Vec::new();
        for device in there.filter_map(|line| line.shown_device()) {
            if let Some(attached) = loop_device::status(device)?
                && attached.tag.is_none()
                && loop_device::backing_path(device).is_some_and(|file| own.hold_file(&file))
            {
                left.push(attached.record());
            }
        }
        Ok(left)
    }

    /// Refuses to unstage, without a record, a volume that is also mounted elsewhere: according to the mount table, a pod uses it.
    pub(crate) fn refuse_shown_elsewhere(
        &self,
        key: &VolumeKey,
        path: &CheckedPath,
    ) -> Result<(), MountError> {
        match self.shown_elsewhere(key, path)?.first() {
            None => Ok(()),
            Some(point) => Err(MountError::in_use(
                describe_volume(key),
                format!(
                    "its mount at {}; call NodeUnpublishVolume first",
                    point.display()
                ),
            )),
        }
    }

    /// Other paths below the roots at which the volume staged at a path is mounted.
    pub(crate) fn shown_elsewhere(
        &self,
        key: &VolumeKey,
        path: &CheckedPath,
    ) -> Result<Vec<PathBuf>, MountError> {
        let table = mountinfo::read()?;
        let kept = self.kept_devices(key)?;
        let point = path.in_mount_table()?;
        let is_staged = |line: &&MountLine| Some(&line.mount_point) == point.as_ref();
        let staged: Vec<_> = table.iter().filter(is_staged).collect();
        let shows_same = |line: &MountLine| {
            let mut same = staged.iter().map(|it| (it.device, &it.root));
            same.any(|same| same == (line.device, &line.root))
                || line.shown_device().is_some_and(|device| {
                    kept.iter().any(|it| it.attached.number == device)
                        || encryption::is_map_of(key, device)
                })
        };
        let elsewhere = table.iter().filter(|line| {
            !is_staged(line) && shows_same(line) && self.roots.hold(&line.mount_point)
        });
        Ok(elsewhere.map(|line| line.mount_point.clone()).collect())
    }

    /// The mounts of one of a driver's pools, from the mount table and the loop devices alone.
    pub(crate) fn shown(&self, driver: &DriverName, pool: &str) -> Result<Shown, MountError> {
        let table = mountinfo::read()?;
        let grants = self.grants_of(driver);
        let own = OwnSources::of(&grants, &table);
        let entries = self.journal.of_driver(driver);
        let is_recorded = |record: BlockRecord| {
            let mut blocks = entries.iter().flat_map(Entry::blocks);
            blocks.any(|block| block == record)
        };
        // Only records of this driver: another driver may have a pool inside or around this one.
        let mounts = entries.iter().flat_map(Entry::mounts);
        let paths: HashSet<_> = mounts.map(|(path, _)| Path::new(path)).collect();
        let has_record = |line: &MountLine| paths.contains(line.mount_point.as_path());
        // A pool that was given another name since has volumes of which no record is its own.
        let is_named = |at: VolumePath<'_>| match &at.plan.source {
            Source::Directory { pool, .. } | Source::Image { pool, .. } => {
                grants.pools.contains_key(pool)
            }
            _ => true,
        };
        let asked = match grants.pools.get(pool).and_then(PoolGrant::directory) {
            Some(directory) => PoolRoot::find(directory, &table)?,
            None => None,
        };
        let mut shown = Shown {
            trees: asked
                .iter()
                .flat_map(|root| table.iter().filter_map(|line| root.tree(line)))
                .collect(),
            is_recorded: table
                .iter()
                .filter(|line| own.pools.iter().any(|root| root.holds(line)))
                .all(has_record)
                && entries.iter().flat_map(Entry::paths).all(is_named),
        };
        for attached in loop_device::attached_below(&own.directories())? {
            let Some(image) = loop_device::backing_path(attached.number) else {
                continue;
            };
            let place = asked.iter().find_map(|root| root.place_of(&image));
            shown.trees.extend(place);
            shown.is_recorded &= !own.hold_file(&image) || is_recorded(attached.record());
        }
        Ok(shown)
    }
}

impl OwnSources {
    fn of(grants: &Grants, table: &[MountLine]) -> Self {
        let pools = grants.pools.iter().filter_map(|(name, grant)| {
            PoolRoot::find(grant.directory()?, table).unwrap_or_else(|error| {
                tracing::warn!(pool = name, %error, "mounts of a pool cannot be identified");
                None
            })
        });
        Self {
            pools: pools.collect(),
            filesystems: grants.filesystems.clone(),
            devices: Vec::new(),
        }
    }

    /// The paths by which this process sees the pools.
    fn directories(&self) -> Vec<PathBuf> {
        let directories = self.pools.iter().map(|pool| pool.directory.clone());
        directories.collect()
    }

    /// Whether a file, by its path in this process, lies in one of the pools.
    fn hold_file(&self, file: &Path) -> bool {
        self.pools.iter().any(|pool| pool.place_of(file).is_some())
    }

    fn include(&self, line: &MountLine) -> bool {
        let is_whole = line.root == Path::new("/");
        let is_files = line.fs_type == "tmpfs" && line.source == FILES_NAME;
        let is_granted = self.filesystems.iter().any(|grant| {
            grant.fs_type == line.fs_type
                && (grant.fs_type == "tmpfs"
                    || is_source_granted(&grant.fs_type, &grant.sources, &line.source))
        });
        let is_on_device = line
            .shown_device()
            .is_some_and(|device| self.devices.contains(&device));
        self.pools.iter().any(|pool| pool.holds(line))
            || is_whole && (is_files || is_granted)
            || is_on_device
    }
}

impl PoolRoot {
    /// `None`: the pool's directory does not exist.
    fn find(directory: &Path, table: &[MountLine]) -> Result<Option<Self>, MountError> {
        let Some(opened) = open_root(directory)? else {
            return Ok(None);
        };
        let id = mount_id(&opened).map_err(|errno| kernel("statx", directory.display(), errno))?;
        let real = real_path(&opened)?;
        let found = table.iter().find(|line| line.mount_id == id);
        Ok(found.and_then(|line| {
            let below = real.strip_prefix(&line.mount_point).ok()?;
            Some(Self {
                device: line.device,
                root: line.root.join(below),
                directory: real.clone(),
            })
        }))
    }

    /// Path of a file relative to the pool, from its path in this process.
    fn place_of(&self, file: &Path) -> Option<String> {
        relative(file, &self.directory)
    }

    /// The tree of the pool that a mount shows, relative to the pool.
    fn tree(&self, line: &MountLine) -> Option<String> {
        let tree = relative(&line.root, &self.root);
        tree.filter(|_| self.holds(line))
    }

    /// Strictly below, because no plan mounts a whole pool.
    fn holds(&self, line: &MountLine) -> bool {
        line.device == self.device && line.root != self.root && line.root.starts_with(&self.root)
    }
}

fn relative(path: &Path, base: &Path) -> Option<String> {
    let below = path.strip_prefix(base).ok()?;
    below.to_str().map(str::to_owned)
}

/// Releases a device of which no mount is left.
pub(crate) fn release_unshown(device: &BlockRecord) -> Result<(), MountError> {
    match mountinfo::is_shown(device.number)? {
        true => Ok(()),
        false => loop_device::release(device),
    }
}

#[cfg(test)]
mod tests;
