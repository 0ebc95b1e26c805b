//! NodeUnpublishVolume and NodeUnstageVolume, and the undoing of what failed: needs neither plugin nor plan nor journal.
//!
//! What is gone already is success. Everything that is stacked at a path is unmounted, without a record only what can be the driver's own. A
//! target is removed only when it is no mount, empty, and of the kind that a publish makes; nothing is ever removed recursively. The path
//! must lie below a root here too: teardown is privileged.

use crate::block::BlockRecord;
use crate::block::loop_device::{self, Tag};
use crate::failure::{exhausted, is_corrupted, kernel};
use crate::journal::Progress;
use crate::kubelet_path::Purpose;
use crate::mountinfo;
use crate::node::{Node, is_certain, volume_words};
use crate::observe::{Identity, Seen, look, observe};
use crate::ownership::Kept;
use crate::roots::{CheckedPath, Location};
use rustix::fs::{AtFlags, FileType, unlinkat};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};
use std::collections::BTreeMap;
use std::time::Duration;
use wasmount_core::mounter::{MountError, UnpublishVolume, UnstageVolume, VolumeKey};
use wasmount_core::names::DriverName;

/// Most mounts that are taken off one path: more than any client stacks, and an end for a loop that another process feeds.
const STACKED_MOUNTS: usize = 1000;
/// How often a busy mount is tried again. With the pause below a second in all: what kubelet's own statistics and ours hold a mount for.
const BUSY_ATTEMPTS: usize = 20;
/// Between two of these.
const BUSY_PAUSE: Duration = Duration::from_millis(50);

/// Which of the mounts at a path are to go.
#[derive(Clone, Copy)]
enum Which {
    All,
    /// Those on top with this root.
    Of(Identity),
    None,
}

impl Node {
    /// Unstages. Refused while a target is still mounted: the specification has clients unpublish first, and what follows an unstage (detach,
    /// delete) would take the storage away under a pod.
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
            // Only the next stage would read them, and it writes them anew.
            tracing::warn!(%key.driver, %key.volume, %error, "notes of a volume remain");
        }
        Ok(())
    }

    /// Unpublishes. The staging path is no target: its mount goes with the unstage, its directory with the client.
    pub(crate) fn unpublish(&self, request: &UnpublishVolume) -> Result<(), MountError> {
        let path = self.path_for(Purpose::Unpublish, &request.key, &request.target_path)?;
        if self.journal.entry(&request.key).is_staged_at(path.text()) {
            let volume = volume_words(&request.key);
            return Err(MountError::in_use(
                path.text(),
                format!(
                    "{volume} is staged there, and it is no target of its; call NodeUnstageVolume"
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
        self.release_earlier(&earlier)
    }

    /// Brings a stage that is neither there nor gone to an end: nothing of it is left.
    pub(crate) fn undo_stage(&self, key: &VolumeKey) -> Result<(), MountError> {
        let Some(stage) = self.journal.entry(key).stage else {
            return Ok(());
        };
        let path = self.roots.check_text(&stage.path)?;
        match which(stage.progress, stage.identity) {
            Some(which) => self.finish_stage(key, &path, which),
            None => Ok(()),
        }
    }

    /// The same for a target.
    pub(crate) fn undo_target(&self, key: &VolumeKey, path: &str) -> Result<(), MountError> {
        let entry = self.journal.entry(key);
        let Some(target) = entry.targets.get(path) else {
            return Ok(());
        };
        let path = self.roots.check_text(path)?;
        match which(target.progress, target.identity) {
            Some(which) => self.finish_target(key, &path, which),
            None => Ok(()),
        }
    }

    fn finish_stage(
        &self,
        key: &VolumeKey,
        path: &CheckedPath,
        which: Which,
    ) -> Result<(), MountError> {
        self.take_off(&key.driver, path, which)?;
        let entry = self.journal.entry(key);
        // Of a volume that is staged elsewhere, nothing here is to be let go.
        match &entry.stage {
            Some(stage) if stage.path == path.text() => {
                self.release(key, stage.block, stage.capability.is_raw())?;
            }
            Some(_) => {}
            None => self.release_tagged(key, |tag, _| *tag == Tag::staged(key))?,
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
        if let Some(location) = self.take_off(&key.driver, path, which)? {
            match remove_target(&location) {
                // A link or file that is not ours has the name: an undo has nothing to remove there, an unpublish says so.
                Err(_) if !matches!(which, Which::All) => {}
                removed => removed?,
            }
        }
        self.forget_target(key, path.text())
    }

    /// Drops the record of a target at which nothing of the volume is mounted any more, and lets go of its device.
    pub(crate) fn forget_target(&self, key: &VolumeKey, path: &str) -> Result<(), MountError> {
        let mut entry = self.journal.entry(key);
        match entry.targets.remove(path) {
            Some(target) => {
                let is_shared = entry.blocks().any(|block| Some(block) == target.block);
                let is_raw = target.capability.is_raw();
                self.release(key, target.block.filter(|_| !is_shared), is_raw)?;
            }
            // An image's device may be there for several targets, and carries the tag of the first.
            None => self.release_tagged(key, |tag, lies_in_pool| {
                *tag == Tag::target(key, path) || lies_in_pool && *tag != Tag::staged(key)
            })?,
        }
        self.stats_cache.forget(path);
        self.record_teardown(key, |entry| {
            entry.targets.remove(path);
        });
        Ok(())
    }

    /// Lets go of the loop device that a record speaks of: a raw one is detached, that of a mount has gone with it.
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
        // The answer says that nothing uses the image any more. A process may just be looking at the device, which keeps it for a moment.
        for _ in 0..BUSY_ATTEMPTS {
            if !loop_device::is_bound(&block)? {
                return Ok(());
            }
            std::thread::sleep(BUSY_PAUSE);
        }
        tracing::warn!(%key.driver, %key.volume, device = %block.number, "somebody still has the volume's loop device, another mount namespace most likely; it goes when the last user lets go, and its image stays till then");
        Ok(())
    }

    /// The same without a record, since the journal may have been lost: of the devices that carry the volume's tag, those that nothing shows.
    fn release_tagged(
        &self,
        key: &VolumeKey,
        is_meant: impl Fn(&Tag, bool) -> bool,
    ) -> Result<(), MountError> {
        for Kept {
            attached,
            lies_in_pool,
        } in self.kept_devices(key)?
        {
            let tag = attached.tag.as_ref();
            if tag.is_some_and(|tag| is_meant(tag, lies_in_pool))
                && !mountinfo::is_shown(attached.number)?
            {
                loop_device::release(&attached.record())?;
            }
        }
        Ok(())
    }

    fn refuse_published(&self, key: &VolumeKey) -> Result<(), MountError> {
        for (path, target) in &self.journal.entry(key).targets {
            // A target that does not answer is no reason to keep the rest.
            if is_certain(self.still_mounted(path, target.identity))? {
                return Err(MountError::in_use(
                    volume_words(key),
                    format!("its publish at {path}; call NodeUnpublishVolume first"),
                ));
            }
        }
        Ok(())
    }

    /// Unmounts, from the top. Where the path leads; `None`: a part of the way is missing. For an undo a way that was changed into a link is as
    /// good as none: the mount was taken back by descriptor.
    fn take_off(
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
                // The descriptor must be gone before the unmount.
                match look(&location) {
                    Ok(Seen::Mounted(mount)) if mount.identity == identity => {}
                    Ok(_) | Err(MountError::OutsideRoots { .. }) => return Ok(Some(location)),
                    Err(error) => return Err(error),
                }
            }
            if !self.take_off_top(driver, &location)?
                && (matches!(which, Which::Of(_)) || !is_left(&location)?)
            {
                return Ok(Some(location));
            }
        }
        let by = format!("more than {STACKED_MOUNTS} mounts, or a process that mounts there again");
        Err(MountError::in_use(location.path, by))
    }

    /// Unmounts what is on top. `false`: no mount is there.
    fn take_off_top(&self, driver: &DriverName, location: &Location) -> Result<bool, MountError> {
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

    /// Whether waiting for the users of a mount is in vain: its storage is gone or does not answer.
    fn is_lost(&self, driver: &DriverName, location: &Location) -> bool {
        if self.stats_cache.is_hung(&location.path) {
            return true;
        }
        match look(location) {
            Ok(Seen::Corrupted(_)) => true,
            Ok(Seen::Mounted(mount)) => self.is_unanswered(driver, &location.path, mount),
            _ => false,
        }
    }
}

/// `None`: nothing is to be undone.
fn which(progress: Progress, identity: Option<Identity>) -> Option<Which> {
    match (progress, identity) {
        (Progress::Settled, _) => None,
        (Progress::Coming, Some(identity)) => Some(Which::Of(identity)),
        // Nothing was mounted there yet, or it is a raw block volume's staging path; what is there is another owner's.
        (_, None) => Some(Which::None),
        (Progress::Going, Some(_)) => Some(Which::All),
    }
}

/// Whether a mount is there after all: a directory that was swapped for a link has none at one moment and one at the next. With the link in
/// its place the call is refused, since a mount that moved away with its directory must not be forgotten.
fn is_left(location: &Location) -> Result<bool, MountError> {
    match location.open() {
        Ok(opened) => Ok(observe(opened).is_ok_and(|observation| observation.is_mount_root)),
        Err(errno) if errno == Errno::LOOP || exhausted(errno).is_some() => {
            Err(location.failed("open", errno))
        }
        Err(_) => Ok(false),
    }
}

/// The last resort: the mount goes from everybody's sight now, and its storage when the last user lets go.
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

/// Removes a target that is no mount, if it is what a publish makes: an empty directory or an empty file.
fn remove_target(location: &Location) -> Result<(), MountError> {
    let in_use = |by| MountError::in_use(&location.path, by);
    let (target, observation) = match look(location)? {
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
