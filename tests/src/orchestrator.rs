//! The part of the container orchestrator: the calls of a full volume lifecycle, with kubelet's layout of paths and unchanged answers, so that a test
//! reads as a list of calls and codes.
//!
//! It keeps no state of the driver: a test asks the driver again.

use crate::requests::{self, capability};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::{Instant, sleep};
use tonic::{Code, Status};
use wasmount_csi::wire::csi::v1::{
    ControllerExpandVolumeRequest, ControllerGetCapabilitiesRequest,
    ControllerPublishVolumeRequest, ControllerUnpublishVolumeRequest, CreateVolumeRequest,
    DeleteVolumeRequest, GetCapacityRequest, GetPluginInfoRequest, NodeExpandVolumeRequest,
    NodeGetVolumeStatsResponse, NodePublishVolumeRequest, NodeStageVolumeRequest,
    ValidateVolumeCapabilitiesRequest,
};
use xtask::clients::Clients;
use xtask::failure::Failure;
use xtask::files;

/// Size of a volume unless a test says otherwise, in bytes.
pub const VOLUME_BYTES: i64 = 1 << 20;

/// How long a call is repeated while another one is under way, or the plugin is still being compiled. Three times what the slowest takes, the
/// restoration of a backup by Cinder: other tests share the machine.
const PATIENCE: Duration = Duration::from_secs(180);

/// Between two attempts.
const AGAIN: Duration = Duration::from_millis(10);

/// An orchestrator of one driver on one node.
#[derive(Debug, Clone)]
pub struct Orchestrator {
    clients: Clients,
    kubelet: PathBuf,
    driver: String,
}

/// A created volume, and its paths for one pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Volume {
    /// The id that the driver returned.
    pub id: String,
    /// Its staging path, which the orchestrator creates.
    pub staging: PathBuf,
    /// The target path of its first pod; only the parent directory is created.
    pub target: PathBuf,
}

impl Orchestrator {
    /// Connects, and waits until the driver's plugin serves.
    pub async fn connect(socket: &Path, kubelet: &Path) -> Result<Self, Failure> {
        let orchestrator = Self::connect_at_once(socket, kubelet).await?;
        let served = patiently(&[Code::Unavailable], || orchestrator.has_plugin()).await;
        served.map_err(|status| refused("the driver has no plugin", &status))?;
        Ok(orchestrator)
    }

    /// Connects without waiting for a plugin.
    pub async fn connect_at_once(socket: &Path, kubelet: &Path) -> Result<Self, Failure> {
        let mut orchestrator = Self {
            clients: Clients::connect(socket).await?,
            kubelet: kubelet.to_owned(),
            driver: String::new(),
        };
        let name = orchestrator.driver_name().await;
        orchestrator.driver = name.map_err(|status| refused("GetPluginInfo", &status))?;
        Ok(orchestrator)
    }

    /// The gRPC clients, for requests that a well-behaved orchestrator does not send.
    pub fn clients(&self) -> Clients {
        self.clients.clone()
    }

    /// The driver's name.
    pub async fn driver_name(&self) -> Result<String, Status> {
        let request = GetPluginInfoRequest {};
        let answer = self.clients().identity.get_plugin_info(request).await?;
        Ok(answer.into_inner().name)
    }

    /// Succeeds if the controller's capabilities are known: they are the plugin's.
    pub async fn has_plugin(&self) -> Result<(), Status> {
        let request = ControllerGetCapabilitiesRequest {};
        let mut controller = self.clients().controller;
        controller.controller_get_capabilities(request).await?;
        Ok(())
    }

    /// Bytes that can still be promised.
    pub async fn capacity(&self) -> Result<i64, Status> {
        let request = GetCapacityRequest::default();
        let answer = self.clients().controller.get_capacity(request).await?;
        Ok(answer.into_inner().available_capacity)
    }

    /// The paths for a volume of this name; creates its staging path and the parent of its target path. kubelet uses the hash of the volume's id;
    /// here it is the hash of the name, so that a test may have two sets of paths for one volume.
    pub fn place(&self, name: &str, id: String) -> Result<Volume, Failure> {
        let hash = hex::encode(Sha256::digest(name));
        let staging = self
            .kubelet
            .join("plugins/kubernetes.io/csi")
            .join(&self.driver)
            .join(hash)
            .join("globalmount");
        files::create_directory(&staging)?;
        let target = self.target(name, "first-pod")?;
        Ok(Volume {
            id,
            staging,
            target,
        })
    }

    /// The target path of a pod; its parent directory is created.
    pub fn target(&self, name: &str, pod: &str) -> Result<PathBuf, Failure> {
        let directory = self
            .kubelet
            .join("pods")
            .join(pod)
            .join("volumes/kubernetes.io~csi")
            .join(name);
        files::create_directory(&directory)?;
        Ok(directory.join("mount"))
    }

    /// CreateVolume; returns the id and the size.
    pub async fn create(&self, request: CreateVolumeRequest) -> Result<(String, i64), Status> {
        let answer = self.clients().controller.create_volume(request).await?;
        let volume = answer.into_inner().volume;
        let volume = volume.ok_or_else(|| Status::internal("no volume in the answer"))?;
        Ok((volume.volume_id, volume.capacity_bytes))
    }

    /// Creates a volume of [`VOLUME_BYTES`], and its directories.
    pub async fn created(&self, name: &str) -> Result<Volume, Failure> {
        let created = self.create(requests::create(name, VOLUME_BYTES)).await;
        let (id, _) = created.map_err(|status| refused("CreateVolume", &status))?;
        self.place(name, id)
    }

    /// Succeeds if the driver knows the volume.
    pub async fn is_known(&self, id: &str) -> Result<(), Status> {
        let request = ValidateVolumeCapabilitiesRequest {
            volume_id: id.to_owned(),
            volume_capabilities: vec![capability()],
            ..ValidateVolumeCapabilitiesRequest::default()
        };
        let mut controller = self.clients().controller;
        controller.validate_volume_capabilities(request).await?;
        Ok(())
    }

    /// ControllerExpandVolume; returns the size, and whether NodeExpandVolume must follow.
    pub async fn expand(
        &self,
        request: ControllerExpandVolumeRequest,
    ) -> Result<(i64, bool), Status> {
        let mut controller = self.clients().controller;
        let answer = controller.controller_expand_volume(request).await?;
        let answer = answer.into_inner();
        Ok((answer.capacity_bytes, answer.node_expansion_required))
    }

    /// ControllerPublishVolume; returns the publish context.
    pub async fn attach(&self, id: &str, node: &str) -> Result<BTreeMap<String, String>, Status> {
        self.attach_as(requests::attach(id, node)).await
    }

    /// ControllerPublishVolume with this request; the publish context.
    pub async fn attach_as(
        &self,
        request: ControllerPublishVolumeRequest,
    ) -> Result<BTreeMap<String, String>, Status> {
        let mut controller = self.clients().controller;
        let answer = controller.controller_publish_volume(request).await?;
        Ok(answer.into_inner().publish_context)
    }

    /// ControllerUnpublishVolume.
    pub async fn detach(&self, id: &str, node: &str) -> Result<(), Status> {
        let request = ControllerUnpublishVolumeRequest {
            volume_id: id.to_owned(),
            node_id: node.to_owned(),
            ..ControllerUnpublishVolumeRequest::default()
        };
        let mut controller = self.clients().controller;
        controller.controller_unpublish_volume(request).await?;
        Ok(())
    }

    /// NodeExpandVolume; returns the size, 0 if unknown.
    pub async fn node_expand(&self, request: NodeExpandVolumeRequest) -> Result<i64, Status> {
        let answer = self.clients().node.node_expand_volume(request).await?;
        Ok(answer.into_inner().capacity_bytes)
    }

    /// DeleteVolume.
    pub async fn delete(&self, id: &str) -> Result<(), Status> {
        let request = DeleteVolumeRequest {
            volume_id: id.to_owned(),
            ..DeleteVolumeRequest::default()
        };
        self.clients().controller.delete_volume(request).await?;
        Ok(())
    }

    /// NodeStageVolume, at the volume's staging path.
    pub async fn stage(&self, volume: &Volume) -> Result<(), Status> {
        self.stage_as(requests::stage(&volume.id, &volume.staging))
            .await
    }

    /// NodeStageVolume, with this request.
    pub async fn stage_as(&self, request: NodeStageVolumeRequest) -> Result<(), Status> {
        self.clients().node.node_stage_volume(request).await?;
        Ok(())
    }

    /// NodeUnstageVolume, at the volume's staging path.
    pub async fn unstage(&self, volume: &Volume) -> Result<(), Status> {
        self.unstage_at(&volume.id, &volume.staging).await
    }

    /// NodeUnstageVolume, at any path.
    pub async fn unstage_at(&self, id: &str, staging: &Path) -> Result<(), Status> {
        let request = requests::unstage(id, staging);
        self.clients().node.node_unstage_volume(request).await?;
        Ok(())
    }

    /// NodePublishVolume, to the volume's first pod.
    pub async fn publish(&self, volume: &Volume) -> Result<(), Status> {
        let request = requests::publish(&volume.id, &volume.staging, &volume.target);
        self.publish_as(request).await
    }

    /// NodePublishVolume, with this request.
    pub async fn publish_as(&self, request: NodePublishVolumeRequest) -> Result<(), Status> {
        self.clients().node.node_publish_volume(request).await?;
        Ok(())
    }

    /// NodeUnpublishVolume, of the volume's first pod.
    pub async fn unpublish(&self, volume: &Volume) -> Result<(), Status> {
        self.unpublish_at(&volume.id, &volume.target).await
    }

    /// NodeUnpublishVolume, at any path.
    pub async fn unpublish_at(&self, id: &str, target: &Path) -> Result<(), Status> {
        let request = requests::unpublish(id, target);
        self.clients().node.node_unpublish_volume(request).await?;
        Ok(())
    }

    /// NodeGetVolumeStats.
    pub async fn stats(&self, id: &str, path: &Path) -> Result<NodeGetVolumeStatsResponse, Status> {
        let request = requests::stats(id, path);
        let answer = self.clients().node.node_get_volume_stats(request).await?;
        Ok(answer.into_inner())
    }

    /// Stages and publishes.
    pub async fn set_up(&self, volume: &Volume) -> Result<(), Status> {
        self.stage(volume).await?;
        self.publish(volume).await
    }

    /// Unpublishes, unstages and deletes, whichever steps were done: each call is repeated while an earlier one is still under way.
    pub async fn tear_down(&self, volume: &Volume) -> Result<(), Status> {
        let busy = &[Code::Aborted];
        patiently(busy, || self.unpublish(volume)).await?;
        patiently(busy, || self.unstage(volume)).await?;
        patiently(busy, || self.delete(&volume.id)).await
    }

    /// The same while other tests do it too: a loop device is detached when the last process closes it, and a process that lists all loop devices has
    /// each open for a moment. So the deletion is repeated while the volume is in use, as external-provisioner does.
    pub async fn tear_down_beside_others(&self, volume: &Volume) -> Result<(), Status> {
        let busy = &[Code::Aborted, Code::Unavailable];
        patiently(busy, || self.unpublish(volume)).await?;
        patiently(busy, || self.unstage(volume)).await?;
        let in_use = &[Code::Aborted, Code::Unavailable, Code::FailedPrecondition];
        patiently(in_use, || self.delete(&volume.id)).await
    }
}

impl Volume {
    /// Writes a file as the pod would.
    pub fn write(&self, content: &str) -> Result<(), Failure> {
        let file = self.target.join("data");
        std::fs::write(&file, content).map_err(Failure::cannot(format!("write {}", file.display())))
    }

    /// Reads that file through the pod's target path, or another mount of the volume.
    pub fn read_at(&self, mount: &Path) -> Result<String, Failure> {
        let file = mount.join("data");
        std::fs::read_to_string(&file).map_err(Failure::cannot(format!("read {}", file.display())))
    }
}

/// The code of an answer, for a table of a test.
pub fn code<T>(answer: &Result<T, Status>) -> Code {
    answer.as_ref().err().map_or(Code::Ok, Status::code)
}

/// Repeats a call while it returns one of these codes, as an orchestrator does; returns the last answer.
pub async fn patiently<T, F>(again: &[Code], mut call: impl FnMut() -> F) -> Result<T, Status>
where
    F: Future<Output = Result<T, Status>>,
{
    let start = Instant::now();
    loop {
        let answer = call().await;
        if !again.contains(&code(&answer)) || start.elapsed() > PATIENCE {
            return answer;
        }
        sleep(AGAIN).await;
    }
}

fn refused(what: &str, status: &Status) -> Failure {
    Failure::Unexpected(format!("{what}: {:?}: {}", status.code(), status.message()))
}
