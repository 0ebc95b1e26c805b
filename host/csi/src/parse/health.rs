//! Requests about health, of the Controller and the Node service.

use super::fields::{count, optional};
use super::{Parsed, Result, volume};
use crate::page_token::PageTokens;
use crate::wire::csi::v1 as wire;
use wasmount_core::driver::{HealthPosition, ListVolumeHealthRequest, NodeHealthRequest};
use wasmount_core::names::{NodePath, VolumeId};

pub(crate) fn controller_get_volume_health(
    request: wire::ControllerGetVolumeHealthRequest,
) -> Result<VolumeId> {
    let wire::ControllerGetVolumeHealthRequest { volume_id, secrets } = request;
    let id = VolumeId::parse("volume_id", volume_id)?;
    Ok(Parsed::new(volume(&id), secrets, id))
}

pub(crate) fn controller_list_volume_health(
    request: wire::ControllerListVolumeHealthRequest,
    tokens: &PageTokens,
) -> Result<ListVolumeHealthRequest> {
    let wire::ControllerListVolumeHealthRequest {
        max_entries,
        starting_token,
        secrets,
    } = request;
    let max_entries = count("max_entries", max_entries)?;
    let from = if starting_token.is_empty() {
        HealthPosition::default()
    } else {
        tokens.open_position(&starting_token)?
    };
    Ok(Parsed::new(
        None,
        secrets,
        ListVolumeHealthRequest { max_entries, from },
    ))
}

pub(crate) fn node_get_volume_health(
    request: wire::NodeGetVolumeHealthRequest,
) -> Result<NodeHealthRequest> {
    let wire::NodeGetVolumeHealthRequest {
        volume_id,
        volume_publish_path,
        staging_target_path,
    } = request;
    let id = VolumeId::parse("volume_id", volume_id)?;
    let path = |what, path| optional(path, |path| NodePath::parse(what, path));
    Ok(Parsed::new(
        volume(&id),
        [],
        NodeHealthRequest {
            publish_path: path("volume_publish_path", volume_publish_path)?,
            staging_path: path("staging_target_path", staging_target_path)?,
            id,
        },
    ))
}

pub(crate) fn node_get_storage_health(request: wire::NodeGetStorageHealthRequest) -> Result<()> {
    let wire::NodeGetStorageHealthRequest { secrets } = request;
    Ok(Parsed::new(None, secrets, ()))
}
