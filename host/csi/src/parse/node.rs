//! Requests of the Node service. Paths are only strings here: the mounter checks whether a path lies below a path root and exists (csi-sanity sends a
//! relative path and expects NOT_FOUND).

use super::fields::{attributes, capability, capacity, optional, required};
use super::{Parsed, Result, author_strings, origin, volume};
use crate::wire::csi::v1 as wire;
use wasmount_core::backend::{NodePublish, NodeStage};
use wasmount_core::driver::{
    EPHEMERAL, NodeExpandRequest, NodePublishRequest, NodeStageRequest, NodeStatsRequest,
    SERVICE_ACCOUNT_TOKENS,
};
use wasmount_core::names::{InvalidField, NodePath, VolumeId};

pub(crate) fn node_stage_volume(request: wire::NodeStageVolumeRequest) -> Result<NodeStageRequest> {
    let wire::NodeStageVolumeRequest {
        volume_id,
        publish_context,
        staging_target_path,
        volume_capability,
        secrets,
        volume_context,
    } = request;
    let id = VolumeId::parse("volume_id", volume_id)?;
    let staging_path = NodePath::parse("staging_target_path", staging_target_path)?;
    let requested = required("volume_capability", volume_capability)?;
    let stage = NodeStage {
        id,
        capability: capability("volume_capability", requested)?,
        publish_context: attributes("publish_context", publish_context)?,
        volume_context: attributes("volume_context", volume_context)?,
    };
    // Not the publish context: the plugin's own controller created it.
    let strings = author_strings(&[&stage.volume_context], [&stage.capability]);
    Ok(Parsed::new(
        volume(&stage.id),
        secrets,
        NodeStageRequest {
            volume: stage,
            staging_path,
        },
    )
    .with_author_strings(strings))
}

pub(crate) fn node_unstage_volume(
    request: wire::NodeUnstageVolumeRequest,
) -> Result<(VolumeId, NodePath)> {
    let wire::NodeUnstageVolumeRequest {
        volume_id,
        staging_target_path,
    } = request;
    let id = VolumeId::parse("volume_id", volume_id)?;
    let path = NodePath::parse("staging_target_path", staging_target_path)?;
    Ok(Parsed::new(volume(&id), [], (id, path)))
}

pub(crate) fn node_publish_volume(
    request: wire::NodePublishVolumeRequest,
) -> Result<NodePublishRequest> {
    let wire::NodePublishVolumeRequest {
        volume_id,
        publish_context,
        staging_target_path,
        target_path,
        volume_capability,
        readonly,
        mut secrets,
        mut volume_context,
    } = request;
    let id = VolumeId::parse("volume_id", volume_id)?;
    let target_path = NodePath::parse("target_path", target_path)?;
    let requested = required("volume_capability", volume_capability)?;
    if let Some(tokens) = volume_context.remove(SERVICE_ACCOUNT_TOKENS) {
        // If both are set, the context's value may come from the PersistentVolume's author, the secret from kubelet.
        secrets
            .entry(SERVICE_ACCOUNT_TOKENS.to_owned())
            .or_insert(tokens);
    }
    let volume_context = attributes("volume_context", volume_context)?;
    let staging_path = staging(staging_target_path)?;
    // If one path lay in the other, the outer one could not be unmounted while the inner one is mounted.
    if staging_path
        .as_ref()
        .is_some_and(|staging| staging.overlaps(&target_path))
    {
        return Err(InvalidField::rule(
            "target_path",
            "and staging_target_path are the same, or one lies in the other",
        )
        .into());
    }
    let origin = origin(None, &volume_context);
    let publish = NodePublish {
        id,
        capability: capability("volume_capability", requested)?,
        readonly,
        ephemeral: volume_context.get(EPHEMERAL) == Some("true"),
        publish_context: attributes("publish_context", publish_context)?,
        volume_context,
    };
    let strings = author_strings(&[&publish.volume_context], [&publish.capability]);
    Ok(Parsed::new(
        volume(&publish.id),
        secrets,
        NodePublishRequest {
            volume: publish,
            staging_path,
            target_path,
        },
    )
    .made_for(origin)
    .with_author_strings(strings))
}

pub(crate) fn node_unpublish_volume(
    request: wire::NodeUnpublishVolumeRequest,
) -> Result<(VolumeId, NodePath)> {
    let wire::NodeUnpublishVolumeRequest {
        volume_id,
        target_path,
    } = request;
    let id = VolumeId::parse("volume_id", volume_id)?;
    let path = NodePath::parse("target_path", target_path)?;
    Ok(Parsed::new(volume(&id), [], (id, path)))
}

pub(crate) fn node_get_volume_stats(
    request: wire::NodeGetVolumeStatsRequest,
) -> Result<NodeStatsRequest> {
    let wire::NodeGetVolumeStatsRequest {
        volume_id,
        volume_path,
        staging_target_path,
    } = request;
    let id = VolumeId::parse("volume_id", volume_id)?;
    let volume_path = NodePath::parse("volume_path", volume_path)?;
    let staging_path = staging(staging_target_path)?;
    Ok(Parsed::new(
        volume(&id),
        [],
        NodeStatsRequest {
            id,
            volume_path,
            staging_path,
        },
    ))
}

pub(crate) fn node_expand_volume(
    request: wire::NodeExpandVolumeRequest,
) -> Result<NodeExpandRequest> {
    let wire::NodeExpandVolumeRequest {
        volume_id,
        volume_path,
        capacity_range,
        staging_target_path,
        volume_capability,
        secrets,
    } = request;
    let id = VolumeId::parse("volume_id", volume_id)?;
    let volume_path = NodePath::parse("volume_path", volume_path)?;
    // Kernel and journal know the staging path and the capability; malformed values are still rejected.
    staging(staging_target_path)?;
    let capacity = capacity(capacity_range)?;
    volume_capability
        .map(|requested| capability("volume_capability", requested))
        .transpose()?;
    Ok(Parsed::new(
        volume(&id),
        secrets,
        NodeExpandRequest {
            id,
            volume_path,
            capacity,
        },
    ))
}

fn staging(path: String) -> std::result::Result<Option<NodePath>, InvalidField> {
    optional(path, |path| NodePath::parse("staging_target_path", path))
}
