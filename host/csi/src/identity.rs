//! The Identity service. All of it is answered from memory, but Probe.

use crate::answer::identity as answer;
use crate::parse;
use crate::rpc::RpcHandler;
use crate::wire::csi::v1 as wire;
use tonic::{Request, Response, Status};
use wasmount_core::rpc::Rpc;
use wire::identity_server::Identity;

pub(crate) struct IdentityService(pub(crate) RpcHandler);

#[tonic::async_trait]
impl Identity for IdentityService {
    async fn get_plugin_info(
        &self,
        request: Request<wire::GetPluginInfoRequest>,
    ) -> Result<Response<wire::GetPluginInfoResponse>, Status> {
        let parse = |wire::GetPluginInfoRequest {}| parse::nothing();
        self.0
            .answer(
                Rpc::GetPluginInfo,
                request,
                parse,
                |driver, _, ()| async move { Ok(answer::plugin_info(driver.plugin_info())) },
            )
            .await
    }

    async fn get_plugin_capabilities(
        &self,
        request: Request<wire::GetPluginCapabilitiesRequest>,
    ) -> Result<Response<wire::GetPluginCapabilitiesResponse>, Status> {
        let parse = |wire::GetPluginCapabilitiesRequest {}| parse::nothing();
        self.0
            .answer(
                Rpc::GetPluginCapabilities,
                request,
                parse,
                |driver, _, ()| async move {
                    Ok(answer::plugin_capabilities(driver.capabilities().plugin))
                },
            )
            .await
    }

    async fn probe(
        &self,
        request: Request<wire::ProbeRequest>,
    ) -> Result<Response<wire::ProbeResponse>, Status> {
        let parse = |wire::ProbeRequest {}| parse::nothing();
        self.0
            .answer(
                Rpc::Probe,
                request,
                parse,
                |driver, incoming, ()| async move {
                    Ok(wire::ProbeResponse {
                        ready: Some(driver.probe(incoming).await?),
                    })
                },
            )
            .await
    }
}
