//! The GroupController service.

use crate::answer::group_controller as answer;
use crate::parse;
use crate::rpc::RpcHandler;
use crate::wire::csi::v1 as wire;
use tonic::{Request, Response, Status};
use wasmount_core::rpc::Rpc;
use wire::group_controller_server::GroupController;

pub(crate) struct GroupControllerService(pub(crate) RpcHandler);

#[tonic::async_trait]
impl GroupController for GroupControllerService {
    async fn group_controller_get_capabilities(
        &self,
        request: Request<wire::GroupControllerGetCapabilitiesRequest>,
    ) -> Result<Response<wire::GroupControllerGetCapabilitiesResponse>, Status> {
        let parse = |wire::GroupControllerGetCapabilitiesRequest {}| parse::nothing();
        self.0
            .answer(
                Rpc::GroupControllerGetCapabilities,
                request,
                parse,
                |driver, _, ()| async move {
                    Ok(answer::group_capabilities(driver.capabilities().group))
                },
            )
            .await
    }

    async fn create_volume_group_snapshot(
        &self,
        request: Request<wire::CreateVolumeGroupSnapshotRequest>,
    ) -> Result<Response<wire::CreateVolumeGroupSnapshotResponse>, Status> {
        let parse = parse::create_volume_group_snapshot;
        self.0
            .answer(
                Rpc::CreateVolumeGroupSnapshot,
                request,
                parse,
                |driver, incoming, wanted| async move {
                    driver
                        .create_volume_group_snapshot(incoming, wanted)
                        .await
                        .map(answer::created_group)
                },
            )
            .await
    }

    async fn delete_volume_group_snapshot(
        &self,
        request: Request<wire::DeleteVolumeGroupSnapshotRequest>,
    ) -> Result<Response<wire::DeleteVolumeGroupSnapshotResponse>, Status> {
        let parse = parse::delete_volume_group_snapshot;
        self.0
            .answer(
                Rpc::DeleteVolumeGroupSnapshot,
                request,
                parse,
                |driver, incoming, (id, members)| async move {
                    driver
                        .delete_volume_group_snapshot(incoming, id, members)
                        .await?;
                    Ok(wire::DeleteVolumeGroupSnapshotResponse {})
                },
            )
            .await
    }

    async fn get_volume_group_snapshot(
        &self,
        request: Request<wire::GetVolumeGroupSnapshotRequest>,
    ) -> Result<Response<wire::GetVolumeGroupSnapshotResponse>, Status> {
        let parse = parse::get_volume_group_snapshot;
        self.0
            .answer(
                Rpc::GetVolumeGroupSnapshot,
                request,
                parse,
                |driver, incoming, (id, members)| async move {
                    driver
                        .get_volume_group_snapshot(incoming, id, members)
                        .await
                        .map(answer::found_group)
                },
            )
            .await
    }
}
