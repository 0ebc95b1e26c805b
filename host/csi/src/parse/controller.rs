//! Requests of the Controller service about volumes; `snapshots` has those about snapshots.

use super::fields::{
    any_capabilities, attributes, capabilities, capability, capacity, content_source, optional,
    page, required, required_capacity, topology, topology_requirement,
};
use super::{Parsed, Result, author_strings, origin, subject, volume};
use crate::page_token::PageTokens;
use crate::wire::csi::v1 as wire;
use wasmount_core::attributes::Attributes;
use wasmount_core::backend::{
    ControllerExpand, ControllerPublish, CreateVolume, GetCapacity, ValidateVolume,
};
use wasmount_core::names::{NodeId, RequestedName, VolumeId};
use wasmount_core::volume::PageRequest;

pub(crate) fn create_volume(request: wire::CreateVolumeRequest) -> Result<CreateVolume> {
    let wire::CreateVolumeRequest {
        name,
        capacity_range,
        volume_capabilities,
        parameters,
        secrets,
        volume_content_source,
        accessibility_requirements,
        mutable_parameters,
    } = request;
    let name = RequestedName::parse("name", name)?;
    let capabilities = capabilities(volume_capabilities)?;
    let capacity = capacity(capacity_range)?;
    let parameters = attributes("parameters", parameters)?;
    let mutable_parameters = attributes("mutable_parameters", mutable_parameters)?;
    let origin = origin(Some(&name), &parameters);
    let strings = author_strings(&[&parameters, &mutable_parameters], &capabilities);
    Ok(Parsed::new(
        subject("volume", name.as_str()),
        secrets,
        CreateVolume {
            name,
            capabilities,
            capacity,
            parameters,
            mutable_parameters,
            content_source: volume_content_source.map(content_source).transpose()?,
            accessibility: accessibility_requirements
                .map(topology_requirement)
                .transpose()?,
        },
    )
    .made_for(origin)
    .with_author_strings(strings))
}

pub(crate) fn delete_volume(request: wire::DeleteVolumeRequest) -> Result<VolumeId> {
    let wire::DeleteVolumeRequest { volume_id, secrets } = request;
    let id = VolumeId::parse("volume_id", volume_id)?;
    Ok(Parsed::new(volume(&id), secrets, id))
}

pub(crate) fn controller_publish_volume(
    request: wire::ControllerPublishVolumeRequest,
) -> Result<ControllerPublish> {
    let wire::ControllerPublishVolumeRequest {
        volume_id,
        node_id,
        volume_capability,
        readonly,
        secrets,
        volume_context,
    } = request;
    let id = VolumeId::parse("volume_id", volume_id)?;
    let node = NodeId::parse("node_id", node_id)?;
    let requested = required("volume_capability", volume_capability)?;
    let capability = capability("volume_capability", requested)?;
    let context = attributes("volume_context", volume_context)?;
    let strings = author_strings(&[&context], [&capability]);
    Ok(Parsed::new(
        volume(&id),
        secrets,
        ControllerPublish {
            id,
            node,
            capability,
            readonly,
            context,
        },
    )
    .with_author_strings(strings))
}

pub(crate) fn controller_unpublish_volume(
    request: wire::ControllerUnpublishVolumeRequest,
) -> Result<(VolumeId, Option<NodeId>)> {
    let wire::ControllerUnpublishVolumeRequest {
        volume_id,
        node_id,
        secrets,
    } = request;
    let id = VolumeId::parse("volume_id", volume_id)?;
    let node = optional(node_id, |id| NodeId::parse("node_id", id))?;
    Ok(Parsed::new(volume(&id), secrets, (id, node)))
}

pub(crate) fn validate_volume_capabilities(
    request: wire::ValidateVolumeCapabilitiesRequest,
) -> Result<ValidateVolume> {
    let wire::ValidateVolumeCapabilitiesRequest {
        volume_id,
        volume_context,
        volume_capabilities,
        parameters,
        secrets,
        mutable_parameters,
    } = request;
    let id = VolumeId::parse("volume_id", volume_id)?;
    let capabilities = capabilities(volume_capabilities)?;
    let context = attributes("volume_context", volume_context)?;
    let parameters = attributes("parameters", parameters)?;
    let mutable_parameters = attributes("mutable_parameters", mutable_parameters)?;
    let strings = author_strings(&[&context, &parameters, &mutable_parameters], &capabilities);
    Ok(Parsed::new(
        volume(&id),
        secrets,
        ValidateVolume {
            id,
            capabilities,
            context,
            parameters,
            mutable_parameters,
        },
    )
    .with_author_strings(strings))
}

pub(crate) fn list_volumes(
    request: wire::ListVolumesRequest,
    tokens: &PageTokens,
) -> Result<PageRequest> {
    let wire::ListVolumesRequest {
        max_entries,
        starting_token,
    } = request;
    Ok(Parsed::new(
        None,
        [],
        page(max_entries, starting_token, tokens)?,
    ))
}

pub(crate) fn get_capacity(request: wire::GetCapacityRequest) -> Result<GetCapacity> {
    let wire::GetCapacityRequest {
        volume_capabilities,
        parameters,
        accessible_topology,
    } = request;
    let arguments = GetCapacity {
        capabilities: any_capabilities(volume_capabilities)?,
        parameters: attributes("parameters", parameters)?,
        accessible_topology: accessible_topology.map(topology).transpose()?,
    };
    let strings = author_strings(&[&arguments.parameters], &arguments.capabilities);
    Ok(Parsed::new(None, [], arguments).with_author_strings(strings))
}

pub(crate) fn controller_expand_volume(
    request: wire::ControllerExpandVolumeRequest,
) -> Result<ControllerExpand> {
    let wire::ControllerExpandVolumeRequest {
        volume_id,
        capacity_range,
        secrets,
        volume_capability,
    } = request;
    let id = VolumeId::parse("volume_id", volume_id)?;
    let capacity = required_capacity(capacity_range)?;
    let capability = volume_capability
        .map(|requested| capability("volume_capability", requested))
        .transpose()?;
    let strings = author_strings(&[], &capability);
    Ok(Parsed::new(
        volume(&id),
        secrets,
        ControllerExpand {
            id,
            capacity,
            capability,
        },
    )
    .with_author_strings(strings))
}

pub(crate) fn controller_get_volume(request: wire::ControllerGetVolumeRequest) -> Result<VolumeId> {
    let wire::ControllerGetVolumeRequest { volume_id } = request;
    let id = VolumeId::parse("volume_id", volume_id)?;
    Ok(Parsed::new(volume(&id), [], id))
}

pub(crate) fn controller_modify_volume(
    request: wire::ControllerModifyVolumeRequest,
) -> Result<(VolumeId, Attributes)> {
    let wire::ControllerModifyVolumeRequest {
        volume_id,
        secrets,
        mutable_parameters,
    } = request;
    let id = VolumeId::parse("volume_id", volume_id)?;
    // May be empty: the backend decides whether that requests any change.
    let mutable = attributes("mutable_parameters", mutable_parameters)?;
    let strings = author_strings(&[&mutable], None);
    Ok(Parsed::new(volume(&id), secrets, (id, mutable)).with_author_strings(strings))
}
