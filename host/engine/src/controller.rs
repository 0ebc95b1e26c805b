//! Exports of the controller service: volumes are made, found, attached, grown and removed.

use crate::answer::Asked;
use crate::bindings::exported::volume_listing;
use crate::bindings::exported::{capacity, controller, controller_expand, controller_publish};
use crate::convert;
use crate::function::{Access, Function};
use crate::program::Program;
use crate::session::call_guest;
use wasmount_core::attributes::Attributes;
use wasmount_core::backend::{
    Available, BackendError, ControllerExpand, ControllerPublish, CreateVolume, Expanded,
    GetCapacity, ValidateVolume, Validation,
};
use wasmount_core::call::Call;
use wasmount_core::health::Health;
use wasmount_core::names::{NodeId, VolumeId};
use wasmount_core::volume::{Page, PageRequest, Volume, VolumeEntry};

const CREATE: Function = Function::ordinary("controller", "create-volume");
const DELETE: Function = Function::reserved("controller", "delete-volume");
const VALIDATE: Function =
    Function::ordinary("controller", "validate-volume-capabilities").with(Access::ReadOnly);
const PUBLISH: Function = Function::ordinary("controller-publish", "controller-publish-volume");
const UNPUBLISH: Function = Function::reserved("controller-publish", "controller-unpublish-volume");
const EXPAND: Function = Function::ordinary("controller-expand", "expand-volume");
const MODIFY: Function = Function::ordinary("controller-modify", "modify-volume");
const LIST: Function = Function::ordinary("volume-listing", "list-volumes").with(Access::ReadOnly);
const LOOK_UP: Function = Function::ordinary("volume-lookup", "get-volume").with(Access::ReadOnly);
const CAPACITY: Function = Function::ordinary("capacity", "get-capacity").with(Access::ReadOnly);
const HEALTH: Function =
    Function::ordinary("volume-health", "get-volume-health").with(Access::ReadOnly);

impl Program {
    pub(crate) async fn create_volume(
        &self,
        call: &Call,
        args: CreateVolume,
    ) -> Result<Volume, BackendError> {
        let CreateVolume {
            name,
            capacity,
            capabilities,
            parameters,
            mutable_parameters,
            content_source,
            accessibility,
        } = args;
        let args = controller::CreateVolumeArgs {
            name: name.into_string(),
            capacity: convert::capacity_range_to_guest(&capacity),
            capabilities: convert::capabilities_to_guest(capabilities),
            parameters: convert::attributes_to_guest(&parameters),
            mutable_parameters: convert::attributes_to_guest(&mutable_parameters),
            content_source: content_source
                .as_ref()
                .map(convert::content_source_to_guest),
            accessibility: accessibility.as_ref().map(convert::requirement_to_guest),
        };
        let asked = Asked {
            capacity,
            content_source,
        };
        let closed = call_guest!(self, call, CREATE, controller.call_create_volume(&args))?;
        closed.check(|checker, volume| checker.created(volume, &asked))
    }

    pub(crate) async fn delete_volume(
        &self,
        call: &Call,
        id: VolumeId,
    ) -> Result<(), BackendError> {
        let id = id.into_string();
        let closed = call_guest!(self, call, DELETE, controller.call_delete_volume(&id))?;
        closed.check(|_, ()| Ok(()))
    }

    pub(crate) async fn validate_volume(
        &self,
        call: &Call,
        args: ValidateVolume,
    ) -> Result<Validation, BackendError> {
        let ValidateVolume {
            id,
            context,
            capabilities,
            parameters,
            mutable_parameters,
        } = args;
        let args = controller::ValidateArgs {
            id: id.into_string(),
            context: convert::attributes_to_guest(&context),
            capabilities: convert::capabilities_to_guest(capabilities),
            parameters: convert::attributes_to_guest(&parameters),
            mutable_parameters: convert::attributes_to_guest(&mutable_parameters),
        };
        let closed = call_guest!(
            self,
            call,
            VALIDATE,
            controller.call_validate_volume_capabilities(&args)
        )?;
        closed.check(|checker, validation| Ok(checker.validation(validation)))
    }

    pub(crate) async fn controller_publish(
        &self,
        call: &Call,
        args: ControllerPublish,
    ) -> Result<Attributes, BackendError> {
        let ControllerPublish {
            id,
            node,
            capability,
            readonly,
            context,
        } = args;
        let args = controller_publish::ControllerPublishArgs {
            id: id.into_string(),
            node: node.into_string(),
            capability: convert::capability_to_guest(capability),
            readonly,
            context: convert::attributes_to_guest(&context),
        };
        let closed = call_guest!(
            self,
            call,
            PUBLISH,
            controller_publish.call_controller_publish_volume(&args)
        )?;
        closed.check(|checker, context| checker.publish_context(context))
    }

    pub(crate) async fn controller_unpublish(
        &self,
        call: &Call,
        id: VolumeId,
        node: Option<NodeId>,
    ) -> Result<(), BackendError> {
        let (id, node) = (id.into_string(), node.map(NodeId::into_string));
        let closed = call_guest!(
            self,
            call,
            UNPUBLISH,
            controller_publish.call_controller_unpublish_volume(&id, node.as_ref())
        )?;
        closed.check(|_, ()| Ok(()))
    }

    pub(crate) async fn controller_expand(
        &self,
        call: &Call,
        args: ControllerExpand,
    ) -> Result<Expanded, BackendError> {
        let ControllerExpand {
            id,
            capacity,
            capability,
        } = args;
        let args = controller_expand::ExpandArgs {
            id: id.into_string(),
            capacity: convert::capacity_range_to_guest(&capacity),
            capability: capability.map(convert::capability_to_guest),
        };
        let closed = call_guest!(
            self,
            call,
            EXPAND,
            controller_expand.call_expand_volume(&args)
        )?;
        closed.check(|checker, expanded| checker.expanded(expanded, &capacity))
    }

    pub(crate) async fn modify_volume(
        &self,
        call: &Call,
        id: VolumeId,
        mutable: Attributes,
    ) -> Result<(), BackendError> {
        let (id, mutable) = (id.into_string(), convert::attributes_to_guest(&mutable));
        let closed = call_guest!(
            self,
            call,
            MODIFY,
            controller_modify.call_modify_volume(&id, &mutable)
        )?;
        closed.check(|_, ()| Ok(()))
    }

    pub(crate) async fn list_volumes(
        &self,
        call: &Call,
        page: PageRequest,
    ) -> Result<Page<VolumeEntry>, BackendError> {
        let wanted = convert::page_to_guest(&page);
        let closed = call_guest!(self, call, LIST, volume_listing.call_list_volumes(&wanted))?;
        closed.check(|checker, answer| {
            let volume_listing::VolumePage {
                entries,
                next_token,
            } = answer;
            checker.volumes(entries, next_token, &page)
        })
    }

    pub(crate) async fn get_volume(
        &self,
        call: &Call,
        id: VolumeId,
    ) -> Result<VolumeEntry, BackendError> {
        let closed = call_guest!(
            self,
            call,
            LOOK_UP,
            volume_lookup.call_get_volume(&id.to_string())
        )?;
        closed.check(|checker, entry| checker.looked_up(entry, &id))
    }

    pub(crate) async fn get_capacity(
        &self,
        call: &Call,
        args: GetCapacity,
    ) -> Result<Available, BackendError> {
        let GetCapacity {
            capabilities,
            parameters,
            accessible_topology,
        } = args;
        let args = capacity::CapacityArgs {
            capabilities: convert::capabilities_to_guest(capabilities),
            parameters: convert::attributes_to_guest(&parameters),
            accessible_topology: accessible_topology.as_ref().map(convert::topology_to_guest),
        };
        let closed = call_guest!(self, call, CAPACITY, capacity.call_get_capacity(&args))?;
        closed.check(|checker, available| checker.available(available))
    }

    pub(crate) async fn volume_health(
        &self,
        call: &Call,
        id: VolumeId,
    ) -> Result<Vec<Health>, BackendError> {
        let closed = call_guest!(
            self,
            call,
            HEALTH,
            volume_health.call_get_volume_health(&id.into_string())
        )?;
        closed.check(|checker, healths| checker.healths(healths))
    }
}
