//! The Controller service.

use crate::answer::{controller as answer, health};
use crate::page_token::PageTokens;
use crate::parse;
use crate::rpc::RpcHandler;
use crate::wire::csi::v1 as wire;
use tonic::{Request, Response, Status};
use wasmount_core::rpc::Rpc;
use wire::controller_server::Controller;

pub(crate) struct ControllerService(pub(crate) RpcHandler);

#[tonic::async_trait]
impl Controller for ControllerService {
    async fn create_volume(
        &self,
        request: Request<wire::CreateVolumeRequest>,
    ) -> Result<Response<wire::CreateVolumeResponse>, Status> {
        self.0
            .answer(
                Rpc::CreateVolume,
                request,
                parse::create_volume,
                |driver, incoming, wanted| async move {
                    driver
                        .create_volume(incoming, wanted)
                        .await
                        .map(answer::created_volume)
                },
            )
            .await
    }

    async fn delete_volume(
        &self,
        request: Request<wire::DeleteVolumeRequest>,
    ) -> Result<Response<wire::DeleteVolumeResponse>, Status> {
        self.0
            .answer(
                Rpc::DeleteVolume,
                request,
                parse::delete_volume,
                |driver, incoming, id| async move {
                    driver.delete_volume(incoming, id).await?;
                    Ok(wire::DeleteVolumeResponse {})
                },
            )
            .await
    }

    async fn controller_publish_volume(
        &self,
        request: Request<wire::ControllerPublishVolumeRequest>,
    ) -> Result<Response<wire::ControllerPublishVolumeResponse>, Status> {
        let parse = parse::controller_publish_volume;
        self.0
            .answer(
                Rpc::ControllerPublishVolume,
                request,
                parse,
                |driver, incoming, wanted| async move {
                    let context = driver.controller_publish_volume(incoming, wanted).await?;
                    Ok(wire::ControllerPublishVolumeResponse {
                        publish_context: context.into_map(),
                    })
                },
            )
            .await
    }

    async fn controller_unpublish_volume(
        &self,
        request: Request<wire::ControllerUnpublishVolumeRequest>,
    ) -> Result<Response<wire::ControllerUnpublishVolumeResponse>, Status> {
        let parse = parse::controller_unpublish_volume;
        self.0
            .answer(
                Rpc::ControllerUnpublishVolume,
                request,
                parse,
                |driver, incoming, (id, node)| async move {
                    driver
                        .controller_unpublish_volume(incoming, id, node)
                        .await?;
                    Ok(wire::ControllerUnpublishVolumeResponse {})
                },
            )
            .await
    }

    async fn validate_volume_capabilities(
        &self,
        request: Request<wire::ValidateVolumeCapabilitiesRequest>,
    ) -> Result<Response<wire::ValidateVolumeCapabilitiesResponse>, Status> {
        let parse = parse::validate_volume_capabilities;
        self.0
            .answer(
                Rpc::ValidateVolumeCapabilities,
                request,
                parse,
                |driver, incoming, asked| async move {
                    let validation = driver
                        .validate_volume_capabilities(incoming, asked.clone())
                        .await?;
                    Ok(answer::validation(asked, validation))
                },
            )
            .await
    }

    async fn list_volumes(
        &self,
        request: Request<wire::ListVolumesRequest>,
    ) -> Result<Response<wire::ListVolumesResponse>, Status> {
        let rpc = Rpc::ListVolumes;
        let tokens = &PageTokens::of(self.0.driver().name(), rpc);
        let parse = |request| parse::list_volumes(request, tokens);
        self.0
            .answer(rpc, request, parse, |driver, incoming, page| async move {
                let page = driver.list_volumes(incoming, page).await?;
                Ok(answer::volumes(page, tokens))
            })
            .await
    }

    async fn controller_list_volume_health(
        &self,
        request: Request<wire::ControllerListVolumeHealthRequest>,
    ) -> Result<Response<wire::ControllerListVolumeHealthResponse>, Status> {
        let rpc = Rpc::ControllerListVolumeHealth;
        let tokens = &PageTokens::of(self.0.driver().name(), rpc);
        let parse = |request| parse::controller_list_volume_health(request, tokens);
        self.0
            .answer(rpc, request, parse, |driver, incoming, asked| async move {
                let page = driver
                    .controller_list_volume_health(incoming, asked)
                    .await?;
                Ok(health::unhealthy_volumes(page, tokens))
            })
            .await
    }

    async fn controller_get_volume_health(
        &self,
        request: Request<wire::ControllerGetVolumeHealthRequest>,
    ) -> Result<Response<wire::ControllerGetVolumeHealthResponse>, Status> {
        let parse = parse::controller_get_volume_health;
        self.0
            .answer(
                Rpc::ControllerGetVolumeHealth,
                request,
                parse,
                |driver, incoming, id| async move {
                    driver
                        .controller_get_volume_health(incoming, id)
                        .await
                        .map(health::found_health)
                },
            )
            .await
    }

    async fn get_capacity(
        &self,
        request: Request<wire::GetCapacityRequest>,
    ) -> Result<Response<wire::GetCapacityResponse>, Status> {
        self.0
            .answer(
                Rpc::GetCapacity,
                request,
                parse::get_capacity,
                |driver, incoming, asked| async move {
                    driver
                        .get_capacity(incoming, asked)
                        .await
                        .map(answer::available)
                },
            )
            .await
    }

    async fn controller_get_capabilities(
        &self,
        request: Request<wire::ControllerGetCapabilitiesRequest>,
    ) -> Result<Response<wire::ControllerGetCapabilitiesResponse>, Status> {
        let parse = |wire::ControllerGetCapabilitiesRequest {}| parse::nothing();
        self.0
            .answer(
                Rpc::ControllerGetCapabilities,
                request,
                parse,
                |driver, _, ()| async move {
                    Ok(answer::controller_capabilities(
                        driver.capabilities().controller,
                    ))
                },
            )
            .await
    }

    async fn create_snapshot(
        &self,
        request: Request<wire::CreateSnapshotRequest>,
    ) -> Result<Response<wire::CreateSnapshotResponse>, Status> {
        self.0
            .answer(
                Rpc::CreateSnapshot,
                request,
                parse::create_snapshot,
                |driver, incoming, wanted| async move {
                    driver
                        .create_snapshot(incoming, wanted)
                        .await
                        .map(answer::created_snapshot)
                },
            )
            .await
    }

    async fn delete_snapshot(
        &self,
        request: Request<wire::DeleteSnapshotRequest>,
    ) -> Result<Response<wire::DeleteSnapshotResponse>, Status> {
        self.0
            .answer(
                Rpc::DeleteSnapshot,
                request,
                parse::delete_snapshot,
                |driver, incoming, id| async move {
                    driver.delete_snapshot(incoming, id).await?;
                    Ok(wire::DeleteSnapshotResponse {})
                },
            )
            .await
    }

    async fn list_snapshots(
        &self,
        request: Request<wire::ListSnapshotsRequest>,
    ) -> Result<Response<wire::ListSnapshotsResponse>, Status> {
        let rpc = Rpc::ListSnapshots;
        let tokens = &PageTokens::of(self.0.driver().name(), rpc);
        let parse = |request| parse::list_snapshots(request, tokens);
        self.0
            .answer(rpc, request, parse, |driver, incoming, asked| async move {
                let tokens = tokens.clone().of_source(asked.source_volume.as_ref());
                let page = driver.list_snapshots(incoming, asked).await?;
                Ok(answer::snapshots(page, &tokens))
            })
            .await
    }

    async fn get_snapshot(
        &self,
        request: Request<wire::GetSnapshotRequest>,
    ) -> Result<Response<wire::GetSnapshotResponse>, Status> {
        self.0
            .answer(
                Rpc::GetSnapshot,
                request,
                parse::get_snapshot,
                |driver, incoming, id| async move {
                    driver
                        .get_snapshot(incoming, id)
                        .await
                        .map(answer::found_snapshot)
                },
            )
            .await
    }

    async fn controller_expand_volume(
        &self,
        request: Request<wire::ControllerExpandVolumeRequest>,
    ) -> Result<Response<wire::ControllerExpandVolumeResponse>, Status> {
        let parse = parse::controller_expand_volume;
        self.0
            .answer(
                Rpc::ControllerExpandVolume,
                request,
                parse,
                |driver, incoming, wanted| async move {
                    driver
                        .controller_expand_volume(incoming, wanted)
                        .await
                        .map(answer::expanded)
                },
            )
            .await
    }

    async fn controller_get_volume(
        &self,
        request: Request<wire::ControllerGetVolumeRequest>,
    ) -> Result<Response<wire::ControllerGetVolumeResponse>, Status> {
        let parse = parse::controller_get_volume;
        self.0
            .answer(
                Rpc::ControllerGetVolume,
                request,
                parse,
                |driver, incoming, id| async move {
                    driver
                        .controller_get_volume(incoming, id)
                        .await
                        .map(answer::looked_up)
                },
            )
            .await
    }

    async fn controller_modify_volume(
        &self,
        request: Request<wire::ControllerModifyVolumeRequest>,
    ) -> Result<Response<wire::ControllerModifyVolumeResponse>, Status> {
        let parse = parse::controller_modify_volume;
        self.0
            .answer(
                Rpc::ControllerModifyVolume,
                request,
                parse,
                |driver, incoming, (id, mutable)| async move {
                    driver
                        .controller_modify_volume(incoming, id, mutable)
                        .await?;
                    Ok(wire::ControllerModifyVolumeResponse {})
                },
            )
            .await
    }
}
