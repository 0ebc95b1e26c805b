//! Exports of the node service.

use crate::behaviour::{answers, begin, find, plans, spoil};
use crate::{Misbehave, POOL, asked, asked_by, setting};
use wasmount_guest::*;

impl NodeInfo for Misbehave {
    fn get_node_info() -> Result<NodeDescription, Error> {
        let behaviour = setting("get-node-info");
        begin(&behaviour)?;
        let node = NodeDescription {
            id: None,
            max_volumes: None,
            topology: None,
        };
        Ok(spoil(answers::NODES, &behaviour, node))
    }
}

impl NodeStage for Misbehave {
    fn node_stage(args: NodeStageArgs, plan: &Plan) -> Result<(), Error> {
        record(&asked(&args.volume_context), plan, &args.id)
    }
}

impl NodePublish for Misbehave {
    fn node_publish(args: NodePublishArgs, plan: &Plan) -> Result<(), Error> {
        record(&asked(&args.volume_context), plan, &args.id)
    }
}

impl NodeHooks for Misbehave {
    fn before_unstage(id: VolumeId, _: Attributes) -> Result<(), Error> {
        begin(asked_by(&id))
    }
}

fn record(behaviour: &str, plan: &Plan, id: &str) -> Result<(), Error> {
    begin(behaviour)?;
    if let Some(steps) = find(plans::PLANS, behaviour) {
        return steps(plan, id);
    }
    plan.directory(&POOL, id)?;
    plan.default_fs_type("ext4")?;
    plan.mount_options(&["noatime"])?;
    plan.note("made-by", "misbehave")
}
