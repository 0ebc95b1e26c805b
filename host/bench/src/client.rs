//! One driver behind its socket: what it advertises, and each RPC with the connection that kubelet or a sidecar would use.

use crate::directories::Paths;
use crate::options::{Connections, Options};
use crate::plan::Offers;
use std::collections::BTreeMap;
use std::error::Error;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::timeout;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Response, Status};
use wasmount_core::rpc::Rpc;
use wasmount_core::text::chain;
use wasmount_csi::wire::csi::v1::controller_client::ControllerClient;
use wasmount_csi::wire::csi::v1::identity_client::IdentityClient;
use wasmount_csi::wire::csi::v1::node_client::NodeClient;
use wasmount_csi::wire::csi::v1::volume_capability::access_mode::Mode;
use wasmount_csi::wire::csi::v1::volume_capability::{AccessMode, AccessType, MountVolume};
use wasmount_csi::wire::csi::v1::{
    CapacityRange, ControllerGetCapabilitiesRequest, ControllerPublishVolumeRequest,
    ControllerUnpublishVolumeRequest, CreateVolumeRequest, DeleteVolumeRequest,
    GetPluginCapabilitiesRequest, GetPluginInfoRequest, NodeGetCapabilitiesRequest,
    NodeGetInfoRequest, NodeGetVolumeStatsRequest, NodePublishVolumeRequest,
    NodeStageVolumeRequest, NodeUnpublishVolumeRequest, NodeUnstageVolumeRequest, ProbeRequest,
    Topology, TopologyRequirement, VolumeCapability, controller_service_capability as controller,
    node_service_capability as node, plugin_capability as plugin,
};

/// Size of a volume, in bytes: drivers with a larger unit round up.
const VOLUME_BYTES: i64 = 1 << 20;

/// A driver. It cannot be formatted, since it holds secrets.
pub(crate) struct Client {
    socket: PathBuf,
    shared: Channel,
    options: Options,
    /// Its name.
    pub(crate) driver: String,
    /// Its own version.
    pub(crate) version: String,
    /// What it advertises.
    pub(crate) offers: Offers,
    node_id: String,
    topology: Option<Topology>,
}

/// A volume, as far as its client knows it.
#[derive(Debug, Default)]
pub(crate) struct Volume {
    pub(crate) name: String,
    /// Empty until the driver has returned it.
    pub(crate) id: String,
    context: BTreeMap<String, String>,
    publish_context: BTreeMap<String, String>,
    /// None before the first Node RPC.
    pub(crate) paths: Option<Paths>,
}

impl Client {
    /// Connects, and asks what the driver offers; an error has the RPC that failed.
    pub(crate) async fn connect(
        socket: &Path,
        options: &Options,
    ) -> Result<Self, (Option<Rpc>, Status)> {
        let shared = connect(socket, options.timeout).await;
        let mut client = Self {
            socket: socket.to_owned(),
            shared: shared.map_err(|status| (None, status))?,
            options: options.clone(),
            driver: String::new(),
            version: String::new(),
            offers: Offers::default(),
            node_id: String::new(),
            topology: None,
        };
        client.ask_identity().await?;
        client.ask_node().await?;
        Ok(client)
    }

    /// Name, version, services and capabilities of the controller.
    async fn ask_identity(&mut self) -> Result<(), (Option<Rpc>, Status)> {
        let failed = |rpc| move |status| (Some(rpc), status);
        let mut identity = IdentityClient::new(self.shared.clone());
        let info = self.within(GetPluginInfoRequest {}, |it| identity.get_plugin_info(it));
        let info = info.await.map_err(failed(Rpc::GetPluginInfo))?;
        (self.driver, self.version) = (info.name, info.vendor_version);
        let request = GetPluginCapabilitiesRequest {};
        let answer = self.within(request, |it| identity.get_plugin_capabilities(it));
        let answer = answer.await.map_err(failed(Rpc::GetPluginCapabilities))?;
        let services: Vec<_> = (answer.capabilities.into_iter())
            .filter_map(|it| match it.r#type {
                Some(plugin::Type::Service(service)) => Some(service.r#type()),
                _ => None,
            })
            .collect();
        self.offers.topology =
            services.contains(&plugin::service::Type::VolumeAccessibilityConstraints);
        if !services.contains(&plugin::service::Type::ControllerService) {
            return Ok(());
        }
        let mut client = ControllerClient::new(self.shared.clone());
        let request = ControllerGetCapabilitiesRequest {};
        let answer = self.within(request, |it| client.controller_get_capabilities(it));
        let answer = answer.await;
        let answer = answer.map_err(failed(Rpc::ControllerGetCapabilities))?;
        for capability in answer.capabilities {
            let Some(controller::Type::Rpc(rpc)) = capability.r#type else {
                continue;
            };
            match rpc.r#type() {
                controller::rpc::Type::CreateDeleteVolume => self.offers.create = true,
                controller::rpc::Type::PublishUnpublishVolume => {
                    self.offers.controller_publish = true;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Capabilities, id and topology of the node. A socket of a controller alone has none.
    async fn ask_node(&mut self) -> Result<(), (Option<Rpc>, Status)> {
        let failed = |rpc| move |status| (Some(rpc), status);
        let mut client = NodeClient::new(self.shared.clone());
        let request = NodeGetCapabilitiesRequest {};
        let answer = self.within(request, |it| client.node_get_capabilities(it));
        let answer = match answer.await {
            Err(status) if status.code() == Code::Unimplemented => return Ok(()),
            answer => answer.map_err(failed(Rpc::NodeGetCapabilities))?,
        };
        for capability in answer.capabilities {
            let Some(node::Type::Rpc(rpc)) = capability.r#type else {
                continue;
            };
            match rpc.r#type() {
                node::rpc::Type::StageUnstageVolume => self.offers.stage = true,
                node::rpc::Type::GetVolumeStats => self.offers.stats = true,
                _ => {}
            }
        }
        if self.offers.controller_publish || self.offers.topology {
            let answer = self.within(NodeGetInfoRequest {}, |it| client.node_get_info(it));
            let answer = answer.await.map_err(failed(Rpc::NodeGetInfo))?;
            (self.node_id, self.topology) = (answer.node_id, answer.accessible_topology);
        }
        Ok(())
    }

    /// Makes the RPC; what the answer says about the volume is kept in it.
    pub(crate) async fn call(&self, rpc: Rpc, volume: &mut Volume) -> Result<(), Status> {
        let channel = match self.options.connections {
            Connections::Kubelet if rpc.service() == "Node" => {
                connect(&self.socket, self.options.timeout).await?
            }
            _ => self.shared.clone(),
        };
        match rpc.service() {
            "Node" => self.call_node(channel, rpc, volume).await,
            "Identity" => {
                let mut client = IdentityClient::new(channel);
                let answer = self.within(ProbeRequest {}, |it| client.probe(it)).await?;
                // Absent means ready (CSI specification, ProbeResponse).
                match answer.ready {
                    Some(false) => Err(Status::unavailable("the answer is: not ready")),
                    _ => Ok(()),
                }
            }
            _ => self.call_controller(channel, rpc, volume).await,
        }
    }

    async fn call_controller(
        &self,
        channel: Channel,
        rpc: Rpc,
        volume: &mut Volume,
    ) -> Result<(), Status> {
        let mut client = ControllerClient::new(channel);
        let secrets = self.options.secrets.clone();
        match rpc {
            Rpc::CreateVolume => {
                let topology = self.topology.clone().filter(|_| self.offers.topology);
                let request = CreateVolumeRequest {
                    name: volume.name.clone(),
                    capacity_range: Some(CapacityRange {
                        required_bytes: VOLUME_BYTES,
                        limit_bytes: 0,
                    }),
                    volume_capabilities: vec![capability()],
                    parameters: self.options.parameters.clone(),
                    secrets,
                    accessibility_requirements: topology.map(|topology| TopologyRequirement {
                        requisite: vec![topology.clone()],
                        preferred: vec![topology],
                    }),
                    ..CreateVolumeRequest::default()
                };
                let answer = self.within(request, |it| client.create_volume(it)).await?;
                let made = answer.volume.filter(|it| !it.volume_id.is_empty());
                let made = made.ok_or_else(|| Status::internal("the answer has no volume id"))?;
                (volume.id, volume.context) = (made.volume_id, made.volume_context);
            }
            Rpc::ControllerPublishVolume => {
                let request = ControllerPublishVolumeRequest {
                    volume_id: volume.id.clone(),
                    node_id: self.node_id.clone(),
                    volume_capability: Some(capability()),
                    secrets,
                    volume_context: volume.context.clone(),
                    ..ControllerPublishVolumeRequest::default()
                };
                let answer = self.within(request, |it| client.controller_publish_volume(it));
                volume.publish_context = answer.await?.publish_context;
            }
            Rpc::ControllerUnpublishVolume => {
                let request = ControllerUnpublishVolumeRequest {
                    volume_id: volume.id.clone(),
                    node_id: self.node_id.clone(),
                    secrets,
                };
                let answer = self.within(request, |it| client.controller_unpublish_volume(it));
                answer.await?;
            }
            Rpc::DeleteVolume => {
                let request = DeleteVolumeRequest {
                    volume_id: volume.id.clone(),
                    secrets,
                };
                self.within(request, |it| client.delete_volume(it)).await?;
            }
            other => return Err(unplanned(other)),
        }
        Ok(())
    }

    async fn call_node(
        &self,
        channel: Channel,
        rpc: Rpc,
        volume: &mut Volume,
    ) -> Result<(), Status> {
        let mut client = NodeClient::new(channel);
        let volume_id = volume.id.clone();
        let paths = volume.paths.as_ref();
        let paths = paths.ok_or_else(|| Status::internal("the volume has no paths yet"))?;
        let target_path = text(&paths.target)?;
        let staging_target_path = match self.offers.stage {
            true => text(&paths.staging)?,
            false => String::new(),
        };
        match rpc {
            Rpc::NodeStageVolume => {
                let request = NodeStageVolumeRequest {
                    volume_id,
                    publish_context: volume.publish_context.clone(),
                    staging_target_path,
                    volume_capability: Some(capability()),
                    secrets: self.options.secrets.clone(),
                    volume_context: volume.context.clone(),
                };
                let answer = self.within(request, |it| client.node_stage_volume(it));
                answer.await?;
            }
            Rpc::NodePublishVolume => {
                let request = NodePublishVolumeRequest {
                    volume_id,
                    publish_context: volume.publish_context.clone(),
                    staging_target_path,
                    target_path,
                    volume_capability: Some(capability()),
                    readonly: false,
                    secrets: self.options.secrets.clone(),
                    volume_context: volume.context.clone(),
                };
                let answer = self.within(request, |it| client.node_publish_volume(it));
                answer.await?;
            }
            Rpc::NodeGetVolumeStats => {
                let request = NodeGetVolumeStatsRequest {
                    volume_id,
                    volume_path: target_path,
                    staging_target_path,
                };
                let answer = self.within(request, |it| client.node_get_volume_stats(it));
                answer.await?;
            }
            Rpc::NodeUnpublishVolume => {
                let request = NodeUnpublishVolumeRequest {
                    volume_id,
                    target_path,
                };
                let answer = self.within(request, |it| client.node_unpublish_volume(it));
                answer.await?;
            }
            Rpc::NodeUnstageVolume => {
                let request = NodeUnstageVolumeRequest {
                    volume_id,
                    staging_target_path,
                };
                let answer = self.within(request, |it| client.node_unstage_volume(it));
                answer.await?;
            }
            other => return Err(unplanned(other)),
        }
        Ok(())
    }

    /// Sends a request with the timeout, which the driver is told too, as kubelet and the sidecars do.
    async fn within<Q, A, F>(
        &self,
        request: Q,
        send: impl FnOnce(Request<Q>) -> F,
    ) -> Result<A, Status>
    where
        F: Future<Output = Result<Response<A>, Status>>,
    {
        let mut request = Request::new(request);
        request.set_timeout(self.options.timeout);
        match timeout(self.options.timeout, send(request)).await {
            Ok(Ok(answer)) => Ok(answer.into_inner()),
            // With a cause it is no answer, but a connection that broke: it may have been executed, as gRPC says by this code.
            Ok(Err(status)) if status.source().is_some() => {
                Err(Status::unavailable(chain(&status)))
            }
            Ok(Err(status)) => Err(status),
            Err(_) => Err(no_answer(self.options.timeout)),
        }
    }
}

impl Volume {
    /// A volume that is not created yet.
    pub(crate) fn named(name: String, paths: Option<Paths>) -> Self {
        Self {
            name,
            paths,
            ..Self::default()
        }
    }
}

/// A new connection.
async fn connect(socket: &Path, limit: Duration) -> Result<Channel, Status> {
    let failed = |error: tonic::transport::Error| {
        Status::unavailable(format!("could not connect: {}", chain(&error)))
    };
    let endpoint = Endpoint::from_shared(format!("unix://{}", text(socket)?)).map_err(failed)?;
    match timeout(limit, endpoint.connect()).await {
        Ok(connected) => connected.map_err(failed),
        Err(_) => Err(no_answer(limit)),
    }
}

fn no_answer(limit: Duration) -> Status {
    Status::deadline_exceeded(format!("no answer within {} s", limit.as_secs_f64()))
}

/// No plan has it.
fn unplanned(rpc: Rpc) -> Status {
    Status::unimplemented(format!("{rpc} is not part of a benchmark"))
}

fn text(path: &Path) -> Result<String, Status> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| {
        let reason = "is not UTF-8, which CSI requires; name another directory";
        Status::invalid_argument(format!("{} {reason}", path.display()))
    })
}

/// A mounted file system that one node writes to.
fn capability() -> VolumeCapability {
    VolumeCapability {
        access_mode: Some(AccessMode {
            mode: Mode::SingleNodeWriter.into(),
        }),
        access_type: Some(AccessType::Mount(MountVolume::default())),
    }
}
