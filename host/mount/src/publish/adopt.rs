//! A mount at the target that no record speaks of: whether it shows just what is to be published. So it is after a lost journal.
//!
//! It is apart because it decides by what the kernel shows alone. What cannot be told is no: the client unmounts it then.

use super::{Publish, Published, Shown};
use crate::block::loop_device::{self, Tag};
use crate::block::{BlockDevice, BlockRecord};
use crate::node::Node;
use crate::observe::SeenMount;
use crate::ownership::Kept;
use crate::plan::CheckedSource;
use crate::source;
use wasmount_core::mounter::MountError;

impl Node {
    /// What a mount without a record shows, if it is what is to be published, in the way that is wanted.
    pub(super) fn shown_there(
        &self,
        publish: &Publish<'_>,
        mount: &SeenMount,
    ) -> Result<Option<Shown>, MountError> {
        if !publish.flags.agree_with(mount.flags()?) {
            return Ok(None);
        }
        let shown = |block| {
            Some(Shown {
                identity: Some(mount.identity),
                block,
            })
        };
        match &publish.what {
            Published::Stage(stage) => Ok((stage.identity == mount.identity)
                .then(|| shown(None))
                .flatten()),
            Published::Device(block, source) if !publish.flags.is_read_only() => {
                let device = BlockDevice::recorded(block, source)?;
                let is_same = match device {
                    Some(device) => device.node()? == mount.identity,
                    None => false,
                };
                Ok(is_same.then(|| shown(None)).flatten())
            }
            // A device for targets alone, by its tag.
            Published::Device(..) => self
                .tagged_device(publish, mount)
                .map(|it| it.and_then(|block| shown(Some(block)))),
            Published::Plan(_) if publish.is_raw() => self
                .tagged_device(publish, mount)
                .map(|it| it.and_then(|block| shown(Some(block)))),
            Published::Plan(plan) => {
                if !source::is_shown(&plan.source, mount)? {
                    return Ok(None);
                }
                let block = match &plan.source {
                    CheckedSource::Image(..) | CheckedSource::Device(..) => {
                        source::block_below(mount)?
                    }
                    _ => None,
                };
                Ok(shown(block))
            }
        }
    }

    /// The device with this target's tag, if the mount shows its node.
    fn tagged_device(
        &self,
        publish: &Publish<'_>,
        mount: &SeenMount,
    ) -> Result<Option<BlockRecord>, MountError> {
        let tag = Tag::target(&publish.request.key, publish.path.text());
        for Kept { attached, .. } in self.kept_devices(&publish.request.key)? {
            let record = attached.record();
            if attached.tag.as_ref() == Some(&tag)
                && attached.read_only == publish.flags.is_read_only()
                && let Some(device) = loop_device::open(&record)?
                && device.node()? == mount.identity
            {
                return Ok(Some(record));
            }
        }
        Ok(None)
    }
}
