//! Exports of the node service. Staging and publishing answer with what they recorded; the host carries it out.

use crate::bindings::exported::{node_publish, node_stage};
use crate::convert;
use crate::function::{Access, Function};
use crate::program::Program;
use crate::session::call_guest;
use wasmount_core::attributes::Attributes;
use wasmount_core::backend::{BackendError, NodeDescription, NodePublish, NodeStage};
use wasmount_core::call::Call;
use wasmount_core::names::VolumeId;
use wasmount_core::plan::Plan;

const INFO: Function = Function::reserved("node-info", "get-node-info").with(Access::ReadOnly);
const STAGE: Function = Function::planning("node-stage", "node-stage");
const PUBLISH: Function = Function::planning("node-publish", "node-publish");
const BEFORE_UNSTAGE: Function = Function::reserved("node-hooks", "before-unstage");

impl Program {
    pub(crate) async fn node_info(&self, call: &Call) -> Result<NodeDescription, BackendError> {
        let closed = call_guest!(self, call, INFO, node_info.call_get_node_info())?;
        closed.check(|checker, node| checker.node(node))
    }

    pub(crate) async fn node_stage(
        &self,
        call: &Call,
        args: NodeStage,
    ) -> Result<Plan, BackendError> {
        let NodeStage {
            id,
            capability,
            publish_context,
            volume_context,
        } = args;
        let args = node_stage::NodeStageArgs {
            id: id.into_string(),
            capability: convert::capability_to_guest(capability),
            publish_context: convert::attributes_to_guest(&publish_context),
            volume_context: convert::attributes_to_guest(&volume_context),
        };
        call_guest!(self, call, STAGE, node_stage.call_node_stage(&args))?.plan()
    }

    pub(crate) async fn node_publish(
        &self,
        call: &Call,
        args: NodePublish,
    ) -> Result<Plan, BackendError> {
        let NodePublish {
            id,
            capability,
            readonly,
            ephemeral,
            publish_context,
            volume_context,
        } = args;
        let args = node_publish::NodePublishArgs {
            id: id.into_string(),
            capability: convert::capability_to_guest(capability),
            readonly,
            ephemeral,
            publish_context: convert::attributes_to_guest(&publish_context),
            volume_context: convert::attributes_to_guest(&volume_context),
        };
        call_guest!(self, call, PUBLISH, node_publish.call_node_publish(&args))?.plan()
    }

    pub(crate) async fn before_unstage(
        &self,
        call: &Call,
        id: VolumeId,
        notes: Attributes,
    ) -> Result<(), BackendError> {
        let (id, notes) = (id.into_string(), convert::attributes_to_guest(&notes));
        let closed = call_guest!(
            self,
            call,
            BEFORE_UNSTAGE,
            node_hooks.call_before_unstage(&id, &notes)
        )?;
        closed.check(|_, ()| Ok(()))
    }
}
