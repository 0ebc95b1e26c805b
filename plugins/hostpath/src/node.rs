//! The node service, and the data that it gets from the controller.
use crate::class::{Class, Mutable};
use crate::volumes::VOLUMES;
use crate::{Hostpath, here, most_volumes};
use wasmount_guest::*;

const MOUNT_OPTIONS: &str = "mountOptions"; // in the publish context

impl NodeInfo for Hostpath {
    fn get_node_info() -> Result<NodeDescription, Error> {
        Ok(NodeDescription {
            id: None,
            max_volumes: most_volumes()?,
            topology: here().pop(),
        })
    }
}

impl NodeStage for Hostpath {
    fn node_stage(args: NodeStageArgs, plan: &Plan) -> Result<(), Error> {
        VOLUMES.must_be_id(&args.id)?;
        let Class { pool, fs_type, .. } = args.volume_context.read()?;
        plan.content(&pool, &args.id)?;
        plan.default_fs_type(&fs_type)?;
        let words = args.publish_context.value(MOUNT_OPTIONS).unwrap_or("rw");
        plan.mount_options(&words.split(',').collect::<Vec<_>>())
    }
}

impl NodePublish for Hostpath {
    /// An inline volume of a pod is in memory: the host removes it without calling the plugin.
    fn node_publish(args: NodePublishArgs, plan: &Plan) -> Result<(), Error> {
        args.must_be_ephemeral()?;
        args.volume_context.only(&["size"])?;
        plan.tmpfs(args.volume_context.bytes("size")?)
    }
}

/// The publish context: what the node must know of the controller's records.
pub(crate) fn publish_context(readonly: bool, mutable: &Mutable) -> Attributes {
    let mut words = vec![if readonly { "ro" } else { "rw" }];
    words.extend((mutable.atime == Some(false)).then_some("noatime"));
    words.extend((mutable.discard == Some(true)).then_some("discard"));
    vec![(MOUNT_OPTIONS.to_owned(), words.join(","))]
}
