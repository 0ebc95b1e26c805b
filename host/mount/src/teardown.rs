//! NodeUnpublishVolume and NodeUnstageVolume, and the undo of failed calls: teardown needs neither plugin nor plan nor journal.
//!
//! What is already gone is a success. All mounts that are stacked at a path are unmounted; without a record only those that can belong to the driver.
//! A target is removed only if it is not a mount, is empty and has the type that a publish creates; nothing is ever removed recursively. The path
//! must lie below a root here too, because teardown is privileged.

use crate::block::BlockRecord;
use crate::block::loop_device::{self, Tag};
use crate::failure::{exhausted, is_corrupted, kernel};
use crate::journal::{Progress, TargetRecord, VolumePath};
use crate::kubelet_path::Purpose;
use crate::node::{Node, describe_volume, is_certain};
use crate::observe::{Identity, Seen, inspect, observe};
use crate::ownership::release_unshown;
use crate::roots::{CheckedPath, Location};
use rustix::fs::{AtFlags, FileType, unlinkat};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};
use std::collections::BTreeMap;
use std::time::Duration;
use wasmount_core::mounter::{MountError, UnpublishVolume, UnstageVolume, VolumeKey};
use wasmount_core::names::DriverName;

/// Maximum number of mounts that are unmounted at one path: more than any client stacks, and an end for a loop that another process feeds.
const STACKED_MOUNTS: usize = 1000;
/// How often the unmount of a busy mount is repeated. With the pause below a second in all: the time for which kubelet's own statistics and ours keep
/// a mount busy.
const BUSY_ATTEMPTS: usize = 20;
/// Pause between two attempts.
const BUSY_PAUSE: Duration = Duration::from_millis(50);

/// Which of the mounts at a path are unmounted.
#[derive(Clone, Copy)]
enum Which {
    All,
    /// The topmost ones with this root.
    Of(Identity),
    None,
}

impl Node {
    /// Unstages a volume. Refused while a target is still mounted: the specification requires clients to unpublish first, and the steps after an
    /// unstage (detach, delete) would remove the storage while a pod uses it.
    pub(crate) fn unstage(&self, request: &UnstageVolume) -> Result<(), MountError> {
        let key = &request.key;
        let path = self.path_for(Purpose::Unstage, key, &request.staging_path)?;
        self.refuse_others(key, &path)?;
        self.refuse_foreign(key, &path)?;
        self.refuse_published(key)?;
        if self.journal.entry(key).stage.is_none() {
            self.refuse_shown_elsewhere(key, &path)?;
        }
        self.record_teardown(key, |entry| {
            if let Some(stage) = &mut entry.stage
                && stage.path == path.text()
            {
                stage.progress = Progress::Going;
            }
        });
        self.finish_stage(key, &path, Which::All)?;
        if self.journal.entry(key).stage.is_none()
            && let Err(error) = self.durable.set_notes(key, &BTreeMap::new())
        {
            // Only the next stage would read them, and it overwrites them.
            tracing::warn!(%key.driver, %key.volume, %error, "notes of a volume remain");
        }
        Ok(())
    }

    /// Unpublishes a volume. The staging path is not a target: the unstage removes its mount, and the client removes its directory.
    pub(crate) fn unpublish(&self, request: &UnpublishVolume) -> Result<(), MountError> {
        let path = self.path_for(Purpose::Unpublish, &request.key, &request.target_path)?;
        if self.journal.entry(&request.key).is_staged_at(path.text()) {
            let volume = describe_volume(&request.key);
            return Err(MountError::in_use(
                path.text(),
                format!(
                    "{volume} is staged at this path, which is not one of its target paths; call NodeUnstageVolume"
                ),
            ));
        }
        self.refuse_others(&request.key, &path)?;
        self.refuse_foreign(&request.key, &path)?;
        let earlier = self.earlier_devices(&request.key, &path)?;
        self.record_teardown(&request.key, |entry| {
            if let Some(target) = entry.targets.get_mut(path.text()) {
                target.progress = Progress::Going;
            }
        });
        self.finish_target(&request.key, &path, Which::All)?;
        earlier.iter().try_for_each(release_unshown)
    }

    /// Undoes what is incomplete at these paths of a volume: nothing of it is left. One that cannot be undone does not prevent the undo of the others.
    pub(crate) fn undo(
        &self,
        key: &VolumeKey,
        is_meant: impl Fn(&VolumePath<'_>) -> bool,
    ) -> Result<(), MountError> {
        let entry = self.journal.entry(key);
        let paths = entry.paths().filter(is_meant);
        let undone = paths.map(|at| self.undo_path(key, &at));
        undone.fold(Ok(()), Result::and)
    }

    #[tracing::instrument(level = "debug", skip_all, name = "tear down")]
    fn undo_path(&self, key: &VolumeKey, at: &VolumePath<'_>) -> Result<(), MountError> {
        let which = match (at.progress, at.identity) {
            (Progress::Settled, _) => return Ok(()),
            (Progress::Coming, Some(identity)) => Which::Of(identity),
            // Nothing was mounted there yet, or it is a raw block volume's staging path; existing mounts belong to another owner.
            (_, None) => Which::None,
            (Progress::Going, Some(_)) => Which::All,
        };
        let path = self.roots.check_text(at.path)?;
        match at.is_stage {
            true => self.finish_stage(key, &path, which),
            false => self.finish_target(key, &path, which),
        }
    }

    fn finish_stage(
        &self,
        key: &VolumeKey,
        path: &CheckedPath,
        which: Which,
    ) -> Result<(), MountError> {
        let entry = self.journal.entry(key);
        let plan = entry.stage.as_ref().map(|stage| &stage.plan);
        self.bounded(key, plan, || self.unmount_stack(&key.driver, path, which))?;
        // If the volume is staged elsewhere, nothing is released here.
        match &entry.stage {
            Some(stage) if stage.path == path.text() => {
                if stage.plan.luks.is_some() {
                    self.close_map(key, path.text())?;
                }
                self.release(key, stage.block, stage.capability.is_raw())?;
                self.detach(key, &stage.plan, path.text())?;
            }
            Some(_) => {}
            None => {
                self.close_map(key, path.text())?;
                self.release_tagged(key, |tag, _| *tag == Tag::staged(key))?;
            }
        }
        self.stats_cache.forget(path.text());
        self.record_teardown(key, |entry| {
            if entry.is_staged_at(path.text()) {
                entry.stage = None;
            }
        });
        Ok(())
    }

    fn finish_target(
        &self,
        key: &VolumeKey,
        path: &CheckedPath,
        which: Which,
    ) -> Result<(), MountError> {
        let entry = self.journal.entry(key);
        let plan = entry.targets.get(path.text()).map(|it| &it.plan);
        let unmounted = self.bounded(key, plan, || self.unmount_stack(&key.driver, path, which));
        if let Some(location) = unmounted? {
            match remove_target(&location) {
                // A link or file of another owner has the name: an undo has nothing to remove there, an unpublish returns the error.
                Err(_) if !matches!(which, Which::All) => {}
                removed => removed?,
            }
        }
        self.forget_target(key, path.text())
    }

    /// Drops the record of a target at which nothing of the volume is mounted any more, and releases its device.
    pub(crate) fn forget_target(&self, key: &VolumeKey, path: &str) -> Result<(), MountError> {
        // A publish of another target may take over the raw device of this one (`raw_image`), and records that late.
        let has_own_device = |it: &TargetRecord| it.raw().is_some() && !it.shows_stage;
        let entry = self.journal.entry(key);
        let may_be_taken = entry.targets.get(path).is_some_and(has_own_device);
        let _alone = may_be_taken.then(|| self.alone(key)).transpose()?;
        let mut entry = self.journal.entry(key);
        match entry.targets.remove(path) {
            Some(target) => {
                let is_shared = entry.blocks().any(|block| Some(block) == target.block);
                let is_raw = target.capability.is_raw();
                if target.plan.luks.is_some() {
                    self.close_map(key, path)?;
                }
                self.release(key, target.block.filter(|_| !is_shared), is_raw)?;
                self.detach(key, &target.plan, path)?;
            }
            // The device of an image may serve several targets, and has the tag of the first.
            None => {
                self.release_tagged(key, |tag, lies_in_pool| {
                    *tag == Tag::target(key, path) || lies_in_pool && *tag != Tag::staged(key)
                })?;
                self.close_unshown_map(key, path)?;
            }
        }
        self.stats_cache.forget(path);
        self.record_teardown(key, |entry| {
            entry.targets.remove(path);
        });
        Ok(())
    }

    /// Releases the loop device of a record: a raw one is detached, that of a mount was detached with the mount.
    fn release(
        &self,
        key: &VolumeKey,
        block: Option<BlockRecord>,
        is_raw: bool,
    ) -> Result<(), MountError> {
        let Some(block) = block.filter(|block| block.backing.is_some()) else {
            return Ok(());
        };
        if is_raw {
            loop_device::release(&block)?;
        }
        // The answer means that the image is not in use any more. Another process may have the device open for a moment, which keeps it bound.
        for _ in 0..BUSY_ATTEMPTS {
            if !loop_device::is_bound(&block)? {
                return Ok(());
            }
            std::thread::sleep(BUSY_PAUSE);
        }
        tracing::warn!(%key.driver, %key.volume, device = %block.number, "the volume's loop device is still in use, most likely by another mount namespace; it is detached when its last user closes it; its image is kept until then");
        Ok(())
    }

    /// The same without a record, since the journal may have been lost: of the devices with the volume's tag, those of which no mount is left.
    fn release_tagged(
        &self,
        key: &VolumeKey,
        is_meant: impl Fn(&Tag, bool) -> bool,
    ) -> Result<(), MountError> {
        for kept in self.kept_devices(key)? {
            let tag = kept.attached.tag.as_ref();
            if tag.is_some_and(|tag| is_meant(tag, kept.lies_in_pool)) {
                release_unshown(&kept.attached.record())?;
            }
        }
        Ok(())
    }

    fn refuse_published(&self, key: &VolumeKey) -> Result<(), MountError> {
        for (path, target) in &self.journal.entry(key).targets {
            // A target whose storage does not answer must not keep the other devices.
            if is_certain(self.still_mounted(path, target.identity))? {
                return Err(MountError::in_use(
                    describe_volume(key),
                    format!("its publish at {path}; call NodeUnpublishVolume first"),
                ));
            }
        }
        Ok(())
    }

    /// Unmounts from the top. Returns the location of the path. `None`: a component of the path does not exist. For an undo, a path that was replaced
    /// by a link counts as missing: the mount was undone by descriptor.
    fn unmount_stack(
        &self,
        driver: &DriverName,
        path: &CheckedPath,
        which: Which,
    ) -> Result<Option<Location>, MountError> {
        let location = match path.locate() {
            Err(MountError::OutsideRoots { .. }) if !matches!(which, Which::All) => None,
            located => located?,
        };
        let Some(location) = location else {
            return Ok(None);
        };
        if matches!(which, Which::None) {
            return Ok(Some(location));
        }
        for _ in 0..STACKED_MOUNTS {
            if let Which::Of(identity) = which {
                // The descriptor must be closed before the unmount.
                match inspect(&location) {
                    Ok(Seen::Mounted(mount)) if mount.identity == identity => {}
                    Ok(_) | Err(MountError::OutsideRoots { .. }) => return Ok(Some(location)),
                    Err(error) => return Err(error),
                }
            }
            if !self.unmount_top(driver, &location)?
                && (matches!(which, Which::Of(_)) || !is_left(&location)?)
            {
                return Ok(Some(location));
            }
        }
        let by = format!("more than {STACKED_MOUNTS} mounts, or a process that mounts there again");
        Err(MountError::in_use(location.path, by))
    }

    /// Unmounts the topmost mount. `false`: there is no mount.
    fn unmount_top(&self, driver: &DriverName, location: &Location) -> Result<bool, MountError> {
        let path = location.through_descriptor();
        let mut attempts = 0;
        loop {
            match unmount(&path, UnmountFlags::NOFOLLOW) {
                Ok(()) => return Ok(true),
                Err(Errno::INVAL | Errno::NOENT) => return Ok(false),
                Err(Errno::BUSY) if attempts < BUSY_ATTEMPTS => {
                    attempts += 1;
                    std::thread::sleep(BUSY_PAUSE);
                }
                Err(errno)
                    if is_corrupted(errno)
                        || errno == Errno::BUSY && self.is_lost(driver, location) =>
                {
                    return detach(location, errno);
                }
                Err(Errno::BUSY) => {
                    let by = "a process that has files open there";
                    return Err(MountError::in_use(&location.path, by));
                }
                Err(errno) => return Err(location.failed("umount", errno)),
            }
        }
    }

    /// Whether it is useless to wait for the users of a mount: its storage is gone or does not answer.
    fn is_lost(&self, driver: &DriverName, location: &Location) -> bool {
        if self.stats_cache.is_hung(&location.path) {
            return true;
        }
        match inspect(location) {
            Ok(Seen::Corrupted(_)) => true,
            Ok(Seen::Mounted(mount)) => self.is_unanswered(driver, &location.path, mount),
            _ => false,
        }
    }
}

/// Whether a mount exists after all: while a directory is being swapped with a link, the path has no mount at one moment and one at the next. If the
/// link is in place the call is refused, since a mount that was moved with its directory must not be forgotten.
fn is_left(location: &Location) -> Result<bool, MountError> {
    match location.open() {
        Ok(opened) => Ok(observe(opened).is_ok_and(|observation| observation.is_mount_root)),
        Err(errno) if errno == Errno::LOOP || exhausted(errno).is_some() => {
            Err(location.failed("open", errno))
        }
        Err(_) => Ok(false),
    }
}

/// The last resort, a lazy unmount: the mount disappears now, and its storage is released when the last user closes it.
fn detach(location: &Location, errno: Errno) -> Result<bool, MountError> {
    unmount(
        location.through_descriptor(),
        UnmountFlags::NOFOLLOW | UnmountFlags::DETACH,
    )
    .map_err(|errno| location.failed("umount (lazy)", errno))?;
    tracing::warn!(
        path = %location.path,
        %errno,
        "a mount whose storage does not answer was unmounted lazily; processes that hang on it keep it alive"
    );
    Ok(true)
}

/// Removes a target that is not a mount, if it is what a publish creates: an empty directory or an empty file.
fn remove_target(location: &Location) -> Result<(), MountError> {
    let in_use = |by| MountError::in_use(&location.path, by);
    let (target, observation) = match inspect(location)? {
        Seen::Nothing => return Ok(()),
        Seen::Plain(target, observation) => (target, observation),
        Seen::Mounted(_) => return Err(in_use("a mount that this host cannot unmount")),
        Seen::Corrupted(errno) => return Err(kernel("remove", &location.path, errno)),
    };
    drop(target);
    let flags = match observation.kind {
        FileType::Directory => AtFlags::REMOVEDIR,
        FileType::RegularFile if observation.size_bytes == 0 => AtFlags::empty(),
        _ => {
            return Err(in_use(
                "something that no publish makes; look at it, and remove it by hand",
            ));
        }
    };
    match unlinkat(&location.parent, &location.name, flags) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(Errno::NOTEMPTY | Errno::EXIST) => Err(in_use(
            "files that are not the volume's, and would be lost; move them away",
        )),
        Err(errno) => Err(location.failed("remove", errno)),
    }
}
