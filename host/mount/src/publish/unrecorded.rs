//! Mounts at a target, or of the volume elsewhere, that the journal does not record: it may have been lost.

use super::{Origin, Publish, SINGLE};
use crate::block::{BlockRecord, loop_device, loop_device::Tag};
use crate::encryption::volume_device;
use crate::node::Node;
use crate::observe::SeenMount;
use crate::source;
use crate::stage::MountState;
use wasmount_core::mounter::MountError;

impl Node {
    /// If only one publish is allowed, a mount without a record counts too: the journal may have been lost.
    pub(super) fn ensure_no_unrecorded_writer(
        &self,
        publish: &Publish<'_>,
    ) -> Result<(), MountError> {
        let request = publish.request;
        let is_single = request.plan.is_none() && request.capability.access_mode == SINGLE;
        let Some(staging_path) = request.staging_path.as_ref().filter(|_| is_single) else {
            return Ok(());
        };
        let staged = self.roots.check(staging_path)?;
        let own = publish.path.in_mount_table()?;
        let elsewhere = self.shown_elsewhere(&request.key, &staged)?;
        match elsewhere.iter().find(|point| Some(*point) != own.as_ref()) {
            None => Ok(()),
            Some(point) => Err(publish.second_writer(&point.display().to_string())),
        }
    }

    /// The state of an unrecorded mount at the target, if it shows exactly the volume to be published: this is the case after a lost journal. If the
    /// kernel alone cannot prove that, the answer is no: the client unmounts it then.
    pub(super) fn unrecorded_target(
        &self,
        publish: &Publish<'_>,
        mount: &SeenMount,
    ) -> Result<Option<MountState>, MountError> {
        let plan = &publish.plan;
        if !plan.flags.agree_with(mount.flags()?) {
            return Ok(None);
        }
        let shown = |block| MountState {
            identity: Some(mount.identity),
            block,
        };
        Ok(match &publish.origin {
            Origin::Stage(stage) => (stage.identity == mount.identity).then_some(shown(None)),
            Origin::Device(block) if !plan.flags.is_read_only() => {
                publish.is_node_of(block, mount)?.then_some(shown(None))
            }
            Origin::Plan(_) if !publish.is_raw() => match source::is_shown(&plan.source, mount)? {
                true => Some(MountState::of_unrecorded(mount, &plan.source)?),
                false => None,
            },
            // A device that is attached for targets only is found by its tag.
            Origin::Device(_) | Origin::Plan(_) => self
                .tagged_device(publish, mount)?
                .map(|block| shown(Some(block))),
        })
    }

    /// The device with this target's tag, if the mount shows its node.
    fn tagged_device(
        &self,
        publish: &Publish<'_>,
        mount: &SeenMount,
    ) -> Result<Option<BlockRecord>, MountError> {
        let tag = Tag::target(&publish.request.key, publish.path.text());
        for kept in self.kept_devices(&publish.request.key)? {
            let record = kept.attached.record();
            if kept.attached.tag.as_ref() == Some(&tag)
                && kept.attached.read_only == publish.plan.flags.is_read_only()
                && let Some(device) = loop_device::open(&record)?
                && device.node()? == mount.identity
            {
                return Ok(Some(record));
            }
        }
        Ok(None)
    }
}

impl Publish<'_> {
    /// Whether a mount shows the node of the staged device.
    pub(super) fn is_node_of(
        &self,
        block: &BlockRecord,
        mount: &SeenMount,
    ) -> Result<bool, MountError> {
        match volume_device(&self.request.key, block, &self.plan)? {
            Some(device) => Ok(device.node()? == mount.identity),
            None => Ok(false),
        }
    }
}
