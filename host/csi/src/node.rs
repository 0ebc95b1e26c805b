//! The Node service.

use crate::answer::{health, node as answer};
use crate::parse;
use crate::rpc::RpcHandler;
use crate::wire::csi::v1 as wire;
use tonic::{Request, Response, Status};
use wasmount_core::rpc::Rpc;
use wire::node_server::Node;

pub(crate) struct NodeService(pub(crate) RpcHandler);

#[tonic::async_trait]
impl Node for NodeService {
    async fn node_stage_volume(
        &self,
        request: Request<wire::NodeStageVolumeRequest>,
    ) -> Result<Response<wire::NodeStageVolumeResponse>, Status> {
        self.0
            .answer(
                Rpc::NodeStageVolume,
                request,
                parse::node_stage_volume,
                |driver, incoming, wanted| async move {
                    driver.node_stage_volume(incoming, wanted).await?;
                    Ok(wire::NodeStageVolumeResponse {})
                },
            )
            .await
    }

    async fn node_unstage_volume(
        &self,
        request: Request<wire::NodeUnstageVolumeRequest>,
    ) -> Result<Response<wire::NodeUnstageVolumeResponse>, Status> {
        let parse = parse::node_unstage_volume;
        self.0
            .answer(
                Rpc::NodeUnstageVolume,
                request,
                parse,
                |driver, incoming, (id, path)| async move {
                    driver.node_unstage_volume(incoming, id, path).await?;
                    Ok(wire::NodeUnstageVolumeResponse {})
                },
            )
            .await
    }

    async fn node_publish_volume(
        &self,
        request: Request<wire::NodePublishVolumeRequest>,
    ) -> Result<Response<wire::NodePublishVolumeResponse>, Status> {
        let parse = parse::node_publish_volume;
        self.0
            .answer(
                Rpc::NodePublishVolume,
                request,
                parse,
                |driver, incoming, wanted| async move {
                    driver.node_publish_volume(incoming, wanted).await?;
                    Ok(wire::NodePublishVolumeResponse {})
                },
            )
            .await
    }

    async fn node_unpublish_volume(
        &self,
        request: Request<wire::NodeUnpublishVolumeRequest>,
    ) -> Result<Response<wire::NodeUnpublishVolumeResponse>, Status> {
        let parse = parse::node_unpublish_volume;
        self.0
            .answer(
                Rpc::NodeUnpublishVolume,
                request,
                parse,
                |driver, incoming, (id, path)| async move {
                    driver.node_unpublish_volume(incoming, id, path).await?;
                    Ok(wire::NodeUnpublishVolumeResponse {})
                },
            )
            .await
    }

    async fn node_get_volume_stats(
        &self,
        request: Request<wire::NodeGetVolumeStatsRequest>,
    ) -> Result<Response<wire::NodeGetVolumeStatsResponse>, Status> {
        let parse = parse::node_get_volume_stats;
        self.0
            .answer(
                Rpc::NodeGetVolumeStats,
                request,
                parse,
                |driver, incoming, asked| async move {
                    driver
                        .node_get_volume_stats(incoming, asked)
                        .await
                        .map(answer::node_stats)
                },
            )
            .await
    }

    async fn node_expand_volume(
        &self,
        request: Request<wire::NodeExpandVolumeRequest>,
    ) -> Result<Response<wire::NodeExpandVolumeResponse>, Status> {
        let parse = parse::node_expand_volume;
        self.0
            .answer(
                Rpc::NodeExpandVolume,
                request,
                parse,
                |driver, incoming, wanted| async move {
                    driver
                        .node_expand_volume(incoming, wanted)
                        .await
                        .map(answer::node_expanded)
                },
            )
            .await
    }

    async fn node_get_capabilities(
        &self,
        request: Request<wire::NodeGetCapabilitiesRequest>,
    ) -> Result<Response<wire::NodeGetCapabilitiesResponse>, Status> {
        let parse = |wire::NodeGetCapabilitiesRequest {}| parse::nothing();
        self.0
            .answer(Rpc::NodeGetCapabilities, request, parse, |driver, _, ()| async move {
                Ok(answer::node_capabilities(driver.capabilities().node))
            })
            .await
    }

    async fn node_get_info(
        &self,
        request: Request<wire::NodeGetInfoRequest>,
    ) -> Result<Response<wire::NodeGetInfoResponse>, Status> {
        let parse = |wire::NodeGetInfoRequest {}| parse::nothing();
        self.0
            .answer(
                Rpc::NodeGetInfo,
                request,
                parse,
                |driver, incoming, ()| async move {
                    driver.node_get_info(incoming).await.map(answer::node_info)
                },
            )
            .await
    }

    async fn node_get_volume_health(
        &self,
        request: Request<wire::NodeGetVolumeHealthRequest>,
    ) -> Result<Response<wire::NodeGetVolumeHealthResponse>, Status> {
        let parse = parse::node_get_volume_health;
        self.0
            .answer(
                Rpc::NodeGetVolumeHealth,
                request,
                parse,
                |driver, incoming, asked| async move {
                    driver
                        .node_get_volume_health(incoming, asked)
                        .await
                        .map(health::node_health)
                },
            )
            .await
    }

    async fn node_get_storage_health(
        &self,
        request: Request<wire::NodeGetStorageHealthRequest>,
    ) -> Result<Response<wire::NodeGetStorageHealthResponse>, Status> {
        let parse = parse::node_get_storage_health;
        self.0
            .answer(
                Rpc::NodeGetStorageHealth,
                request,
                parse,
                |driver, incoming, ()| async move {
                    driver
                        .node_get_storage_health(incoming)
                        .await
                        .map(health::storage_health)
                },
            )
            .await
    }
}
