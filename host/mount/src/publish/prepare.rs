//! What a target is to show, as a mount that is attached nowhere: a clone of the stage, the node of a device, or a volume that is made here.
//!
//! It is apart because each kind of publish differs here and nowhere else. It must not know the target.

use super::{Publish, Published};
use crate::block::BlockDevice;
use crate::block::loop_device::Tag;
use crate::group;
use crate::journal::entry::recorded_plan;
use crate::node::{Node, volume_words};
use crate::prepared_mount::PreparedMount;
use crate::prepared_mount::{clone_mount, dress};
use crate::source::{Preparation, Prepared};
use wasmount_core::mounter::MountError;

impl Node {
    pub(super) fn prepare_target(
        &self,
        publish: &Publish<'_>,
    ) -> Result<PreparedMount, MountError> {
        let request = publish.request;
        let tag = Tag::target(&request.key, publish.path.text());
        match &publish.what {
            Published::Plan(plan) => {
                let source = request.plan.as_ref().map(|plan| recorded_plan(plan).source);
                let Some(source) = &source else {
                    return Err(publish.otherwise("it has no plan"));
                };
                let preparation = Preparation {
                    node: self,
                    key: &request.key,
                    source,
                    secret_options: &request.secret_options,
                    tag: &tag,
                };
                match preparation.prepare(plan)? {
                    Prepared::Mount(mount) => Ok(mount),
                    Prepared::Device(device) => {
                        PreparedMount::showing(device, &plan.source, publish.flags, &tag)
                    }
                }
            }
            Published::Device(block, source) => {
                let device =
                    BlockDevice::recorded(block, source)?.ok_or_else(|| MountError::NotStaged {
                        path: "its staging path: the device is gone".to_owned(),
                    })?;
                if publish.flags.is_read_only() && !device.is_read_only {
                    PreparedMount::showing(device, source, publish.flags, &tag)
                } else {
                    PreparedMount::of_device(&device, publish.flags)
                }
            }
            Published::Stage(stage) => {
                let what = volume_words(&request.key);
                let mount = clone_mount(&stage.root, &what)?;
                dress(&mount, publish.flags, &what)?;
                if let Some(group) = publish.group {
                    group::apply(&mount, group, publish.flags.is_read_only())?;
                }
                PreparedMount::of(mount)
            }
        }
    }
}
