//! NodeExpandVolume: grows what the node sees, from the plan in the journal. The plugin is not asked.
//!
//! In order: the image (where nobody has grown it yet: with `node-only-expansion` nobody else does), its loop devices, the file system. Each
//! step is done already or can be repeated. It must not know pools: whoever calls grows the image between [`Node::image_growth`] and
//! [`Node::expand`].

use crate::block::BlockDevice;
use crate::block::loop_device;
use crate::format::{self, FsType};
use crate::journal::entry::Entry;
use crate::node::{Node, volume_words};
use crate::observe::SeenMount;
use crate::plan::{self, CheckedSource, Form};
use crate::source::image;
use crate::stats::{Recorded, not_mounted};
use wasmount_core::mounter::{ExpandVolume, MountError, VolumeKey};
use wasmount_core::plan::{Plan, Source};
use wasmount_core::pool::PoolCall;
use wasmount_core::volume::VolumeCapability;

/// Size of a volume that has nothing of its own to grow (CSI: unknown).
const UNKNOWN_BYTES: u64 = 0;

impl Node {
    /// The call that makes the image as large as is wanted. `None`: it is, or the volume is none.
    pub(crate) fn image_growth(
        &self,
        request: &ExpandVolume,
    ) -> Result<Option<PoolCall>, MountError> {
        self.recorded(&request.key, request.volume_path.as_str())?;
        let entry = self.journal.entry(&request.key);
        let (plan, source) = self.plan_in_force(&request.key, &entry)?;
        let (CheckedSource::Image(place, _), Source::Image { pool, path }) = (source, &plan.source)
        else {
            return Ok(None);
        };
        let size_bytes = image::size_bytes(&place)?;
        if request.limit_bytes.is_some_and(|limit| size_bytes > limit) {
            return Err(MountError::OutOfRange {
                what: volume_words(&request.key),
                reason: format!("it has {size_bytes} bytes already, and a volume never shrinks"),
            });
        }
        Ok(request
            .required_bytes
            .filter(|required| *required > size_bytes)
            .map(|size_bytes| PoolCall::ResizeImage {
                pool: pool.clone(),
                path: path.clone(),
                size_bytes,
            }))
    }

    /// Grows the volume's devices and its file system to the size of what they lie on; that size, or 0 where there is none.
    pub(crate) fn expand(&self, request: &ExpandVolume) -> Result<u64, MountError> {
        let key = &request.key;
        let mount = self.mount_to_grow(request)?;
        let entry = self.journal.entry(key);
        let (_, source) = self.plan_in_force(key, &entry)?;
        let form = match &source {
            CheckedSource::Image(_, form) | CheckedSource::Device(_, form) => form,
            CheckedSource::Directory(_)
            | CheckedSource::Filesystem(_)
            | CheckedSource::Tmpfs(_)
            | CheckedSource::Files(_) => return Ok(UNKNOWN_BYTES),
        };
        let mut size_bytes = UNKNOWN_BYTES;
        for block in entry.blocks() {
            let Some(device) = BlockDevice::recorded(&block, &source)? else {
                return Err(not_mounted(key, request.volume_path.as_str()));
            };
            if block.backing.is_some() {
                loop_device::take_size(&device)?;
            }
            size_bytes = block.number.size_bytes()?;
            // A file system that is only read is left as it is, and grows when it is next staged for writing.
            if let (Form::Filesystem(_), Some(mount)) = (form, &mount)
                && !mount.is_read_only()?
                && let Some(fs_type) = FsType::of_mounted(&mount.root)?
            {
                format::grow(&self.tools, &device, &mount.root, fs_type)?;
            }
        }
        match request.required_bytes {
            Some(required) if size_bytes < required => Err(MountError::Unusable {
                what: volume_words(key),
                reason: format!(
                    "its device has {size_bytes} bytes, and {required} are wanted: the storage has not grown, or this node has not noticed"
                ),
            }),
            _ => Ok(size_bytes),
        }
    }

    /// The mount by which the file system is reached: that of the stage, since a target may be read-only.
    fn mount_to_grow(&self, request: &ExpandVolume) -> Result<Option<SeenMount>, MountError> {
        let (key, path) = (&request.key, request.volume_path.as_str());
        let (path, identity) = match self.recorded(key, path)? {
            Recorded::Device(_) => return Ok(None),
            Recorded::Node(identity) | Recorded::Mount(identity) => {
                let stage = self.journal.entry(key).stage;
                match stage.and_then(|stage| Some((stage.path, stage.identity?))) {
                    Some(staged) => staged,
                    None => (path.to_owned(), identity),
                }
            }
        };
        let checked = self.roots.check_text(&path)?;
        let mount = self.mounted(&checked, identity)?;
        mount.map(Some).ok_or_else(|| not_mounted(key, &path))
    }

    fn plan_in_force(
        &self,
        key: &VolumeKey,
        entry: &Entry,
    ) -> Result<(Plan, CheckedSource), MountError> {
        let (plan, capability): (&Plan, &VolumeCapability) = match &entry.stage {
            Some(stage) => (&stage.plan, &stage.capability.shape),
            None => entry
                .targets
                .values()
                .next()
                .map(|target| (&target.plan, &target.capability.shape))
                .ok_or_else(|| MountError::NotFound {
                    what: volume_words(key),
                })?,
        };
        let checked = plan::check(plan, capability, false, &self.grants_of(&key.driver))?;
        Ok((plan.clone(), checked.source))
    }
}
