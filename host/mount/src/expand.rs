//! NodeExpandVolume: expands the devices and the file system of a volume, from the plan in the journal. The plugin is not called.
//!
//! The order is: the image (only for a driver with `node-only-expansion`; otherwise the controller decides the size of a volume), its loop devices, the
//! map of an encrypted volume, the file system. Each step is already done or can be repeated. The caller expands the image between
//! [`Node::image_growth`] and [`Node::expand`].

use crate::block::{BlockDevice, SECTOR_BYTES, loop_device};
use crate::encryption;
use crate::format;
use crate::fs_type::FsType;
use crate::journal::{Entry, Shows};
use crate::node::{Node, describe_volume};
use crate::observe::SeenMount;
use crate::plan::attach::Attachment;
use crate::plan::{self, CheckedPlan, CheckedSource, Form};
use crate::source::image;
use crate::stats::not_mounted;
use wasmount_core::mounter::{ExpandVolume, MountError, VolumeKey};
use wasmount_core::plan::{Plan, Source};
use wasmount_core::pool::PoolCall;

/// Images are expanded to a multiple of this, in bytes. A sector would suffice, but every file system that the host makes has blocks of this size.
const IMAGE_STEP_BYTES: u64 = 4096;
/// Size that is returned for a volume without a size of its own (CSI: unknown).
const UNKNOWN_BYTES: u64 = 0;

impl Node {
    /// The pool call that expands the image to the required size. `None`: the image is large enough, the volume is not an image, or the controller
    /// expands it.
    pub(crate) fn image_growth(
        &self,
        request: &ExpandVolume,
    ) -> Result<Option<PoolCall>, MountError> {
        let path = self.recorded_path(&request.key, request.volume_path.as_str());
        self.recorded(&request.key, &path)?;
        let entry = self.journal.entry(&request.key);
        let (plan, checked) = self.plan_in_force(&request.key, &entry)?;
        let (CheckedSource::Image(place, _), Source::Image { pool, path }) =
            (checked.source, &plan.source)
        else {
            return Ok(None);
        };
        let size_bytes = image::size_bytes(&place)?;
        let required_bytes = request.required_bytes.filter(|_| request.grows_object);
        let size_bytes =
            growth(size_bytes, required_bytes, request.limit_bytes).map_err(|reason| {
                let what = describe_volume(&request.key);
                MountError::out_of_range(what, reason)
            })?;
        Ok(size_bytes.map(|size_bytes| PoolCall::ResizeImage {
            pool: pool.clone(),
            path: path.clone(),
            size_bytes,
        }))
    }

    /// Expands the devices and the file system of the volume to the size of the storage below them. Returns that size, or 0 if there is none.
    pub(crate) fn expand(&self, request: &ExpandVolume) -> Result<u64, MountError> {
        let key = &request.key;
        let mount = self.mount_to_grow(request)?;
        let entry = self.journal.entry(key);
        let (plan, checked) = self.plan_in_force(key, &entry)?;
        let form = match &checked.source {
            CheckedSource::Image(_, form) | CheckedSource::Device(_, form) => form,
            CheckedSource::Directory(_)
            | CheckedSource::Filesystem(_)
            | CheckedSource::Tmpfs(_)
            | CheckedSource::Files(_) => return Ok(UNKNOWN_BYTES),
        };
        if let Some(attachment) = Attachment::of(&plan.source)? {
            self.owner(&key.driver).rescan(&attachment)?;
        }
        let mut size_bytes = UNKNOWN_BYTES;
        let is_above_map = |block: &_| checked.is_encrypted && !encryption::is_open(key, block);
        let mut blocks: Vec<_> = entry.blocks().collect();
        blocks.sort_by_key(is_above_map);
        for block in blocks {
            let Some(storage) = BlockDevice::recorded(&block, &checked.source)? else {
                return Err(not_mounted(key, request.volume_path.as_str()));
            };
            if block.backing.is_some() {
                loop_device::take_size(&storage)?;
            }
            // A read-only target of an encrypted volume has a loop device on its map, which is smaller by the header.
            size_bytes = size_bytes.max(block.number.size_bytes()?);
            if checked.is_encrypted && !is_above_map(&block) {
                encryption::grow(key, &storage)?;
            }
            // A read-only file system is not changed. It is expanded when it is next staged for writing.
            if let (Form::Filesystem(_), Some(mount)) = (form, &mount)
                && !mount.is_read_only()?
                && let Some(fs_type) = FsType::of_mounted(&mount.root)?
            {
                let device = encryption::volume_device(key, &block, &checked)?;
                let device =
                    device.ok_or_else(|| not_mounted(key, request.volume_path.as_str()))?;
                format::grow(&device, &mount.root, fs_type)?;
            }
        }
        match request.required_bytes {
            Some(required) if size_bytes < on_device(required) => Err(MountError::unusable(
                describe_volume(key),
                format!(
                    "its device has {size_bytes} bytes, and {required} are wanted: the storage was not expanded (ControllerExpandVolume), or this node has not noticed; look at the capacity of its PersistentVolume"
                ),
            )),
            _ => Ok(size_bytes),
        }
    }

    /// The mount through which the file system is expanded: that of the stage, since a target may be read-only.
    fn mount_to_grow(&self, request: &ExpandVolume) -> Result<Option<SeenMount>, MountError> {
        let key = &request.key;
        let path = self.recorded_path(key, request.volume_path.as_str());
        let (path, identity) = match self.recorded(key, &path)? {
            Shows::Device(_) => return Ok(None),
            Shows::Node(identity) | Shows::Mount(identity) => {
                let stage = self.journal.entry(key).stage;
                match stage.and_then(|stage| Some((stage.path, stage.identity?))) {
                    Some(staged) => staged,
                    None => (path, identity),
                }
            }
        };
        let mount = self.mounted(&path, identity)?;
        mount.map(Some).ok_or_else(|| not_mounted(key, &path))
    }

    fn plan_in_force(
        &self,
        key: &VolumeKey,
        entry: &Entry,
    ) -> Result<(Plan, CheckedPlan), MountError> {
        // The mount of the stage, if there is one.
        let at = entry.paths().next();
        let at = at.ok_or_else(|| MountError::not_found(describe_volume(key)))?;
        let grants = self.grants_of(&key.driver);
        let checked = plan::check(at.plan, &at.capability.shape, false, &grants)?;
        Ok((at.plan.clone(), checked))
    }
}

/// The size to which an image must be expanded, if it must, or why it cannot be.
fn growth(size: u64, required: Option<u64>, limit: Option<u64>) -> Result<Option<u64>, String> {
    let limit = limit.unwrap_or(u64::MAX);
    if size > limit {
        return Err(format!(
            "it has {size} bytes already, and a volume never shrinks"
        ));
    }
    let Some(required) = required.filter(|required| *required > size) else {
        return Ok(None);
    };
    match required.checked_next_multiple_of(IMAGE_STEP_BYTES) {
        Some(grown) if grown <= limit => Ok(Some(grown)),
        _ => Err(format!(
            "images grow in steps of {IMAGE_STEP_BYTES} bytes, and no size between the wanted {required} and the limit of {limit} is one; leave room between the two"
        )),
    }
}

/// How many of so many bytes are visible on a device: the remainder of a file is not visible on its loop device.
fn on_device(bytes: u64) -> u64 {
    bytes - bytes % SECTOR_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn an_image_grows_to_whole_steps_within_the_limit() {
        for (size, required, limit, grown) in [
            (GIB, None, None, None),
            (GIB, Some(GIB), Some(GIB), None),
            (GIB, Some(1), None, None),
            (GIB, Some(2 * GIB), None, Some(2 * GIB)),
            (GIB, Some(2 * GIB), Some(2 * GIB), Some(2 * GIB)),
            (GIB, Some(2 * GIB - 1), Some(2 * GIB), Some(2 * GIB)),
            (1000, Some(500_000_000), None, Some(500_002_816)),
            // An image that was created with an odd size keeps it.
            (500_000_000, Some(500_000_000), Some(500_000_000), None),
        ] {
            assert_eq!(
                growth(size, required, limit),
                Ok(grown),
                "{size} {required:?}"
            );
        }
    }

    #[test]
    fn an_image_neither_shrinks_nor_passes_its_limit() {
        for (size, required, limit, why) in [
            (GIB, None, Some(GIB - 1), "never shrinks"),
            (GIB, Some(2 * GIB), Some(GIB - 1), "never shrinks"),
            (GIB, Some(GIB + 1), Some(GIB + 4095), "steps of 4096 bytes"),
            (GIB, Some(u64::MAX), None, "steps of 4096 bytes"),
        ] {
            let refused = growth(size, required, limit).unwrap_err();
            assert!(refused.contains(why), "{refused}");
        }
    }

    #[test]
    fn a_device_has_whole_sectors() {
        assert_eq!(on_device(500_000_000), 499_999_744);
        assert_eq!(on_device(GIB), GIB);
    }
}
