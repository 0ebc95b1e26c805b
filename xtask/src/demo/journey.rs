//! The lifecycle of one volume as an orchestrator drives it, from the first request to the plugin until the volume is deleted. The paths are
//! laid out as kubelet's. It stops at the first rejected call. The teardown works from any state, since its calls are idempotent.

use super::data::{self, Checksum};
use super::report::{Report, Stopped};
use crate::clients::Clients;
use crate::requests;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::{Instant, sleep};
use tonic::{Code, Response, Status};
use wasmount_csi::wire::csi::v1::volume_usage::Unit;
use wasmount_csi::wire::csi::v1::{
    ControllerExpandVolumeResponse, ControllerGetCapabilitiesRequest,
    ControllerGetCapabilitiesResponse, CreateVolumeResponse, DeleteVolumeRequest,
    GetCapacityRequest, GetCapacityResponse, GetPluginCapabilitiesRequest,
    GetPluginCapabilitiesResponse, GetPluginInfoRequest, GetPluginInfoResponse,
    NodeGetCapabilitiesRequest, NodeGetCapabilitiesResponse, NodeGetInfoRequest,
    NodeGetInfoResponse, NodeGetVolumeStatsResponse, NodePublishVolumeRequest,
    NodeStageVolumeRequest, ProbeRequest, Volume,
};

/// Bytes in a mebibyte, the unit of the table.
const MEBIBYTE: i64 = 1 << 20;

/// Characters of an id in the table: an id may have 128, a line 80.
const SHOWN: usize = 20;

/// The first requested size: enough for the data, and small enough for any machine.
const FIRST_BYTES: i64 = 64 << 20;

/// The requested size of the expansion.
const EXPANDED_BYTES: i64 = 128 << 20;

/// The name that the orchestrator chooses; the driver chooses the id.
const NAME: &str = "pvc-demo";

/// Part of the staging path: kubelet puts the hash of the volume's id there, and the host accepts any.
const VOLUME_HASH: &str = "d2a84f4b8b650937ec8f73cd8be2c74add5a911ba64df27458ed8229da804a26";

/// How long a call is repeated while an earlier one is in progress.
const BUSY: Duration = Duration::from_secs(10);

/// Between two attempts.
const AGAIN: Duration = Duration::from_millis(100);

/// The progress of the lifecycle.
#[derive(Debug)]
pub(super) struct Journey {
    /// The rows that were printed.
    pub(super) report: Report,
    clients: Clients,
    staging: PathBuf,
    target: PathBuf,
    second_target: PathBuf,
    volume: Option<Volume>,
    written: Option<Checksum>,
    seen: Vec<Checksum>,
}

impl Journey {
    /// How often a complete lifecycle reads the data: after writing, through the read-only mount, after expansion.
    const READS: usize = 3;

    /// Creates it with the paths that kubelet uses for a volume of a driver.
    pub(super) fn new(clients: Clients, kubelet: &Path, driver: &OsStr) -> Self {
        let pod = |pod: &str| {
            kubelet.join(format!(
                "pods/{pod}/volumes/kubernetes.io~csi/pvc-demo/mount"
            ))
        };
        Self {
            report: Report::new(),
            clients,
            staging: kubelet
                .join("plugins/kubernetes.io/csi")
                .join(driver)
                .join(VOLUME_HASH)
                .join("globalmount"),
            target: pod("writer"),
            second_target: pod("reader"),
            volume: None,
            written: None,
            seen: Vec::new(),
        }
    }

    /// The finding about the data that was read back.
    pub(super) fn data(&self) -> Result<String, String> {
        match &self.written {
            Some(written) if self.seen.iter().any(|seen| seen != written) => {
                Err("data changed: the checksums differ".to_owned())
            }
            Some(written) if self.seen.len() == Self::READS => Ok(format!(
                "data intact: read back {} times, sha256 {}",
                Self::READS,
                written.short()
            )),
            _ => Err("data not read back: the journey ended before".to_owned()),
        }
    }

    /// The calls of an orchestrator before it creates a volume.
    pub(super) async fn query(&mut self) -> Result<(), Stopped> {
        let Clients {
            identity,
            controller,
            node,
            ..
        } = &mut self.clients;
        let report = &mut self.report;
        let call = identity.get_plugin_info(GetPluginInfoRequest {});
        let shown = |it: &GetPluginInfoResponse| format!("{} {}", it.name, it.vendor_version);
        report.rpc("GetPluginInfo", call, shown).await?;
        let call = identity.get_plugin_capabilities(GetPluginCapabilitiesRequest {});
        let shown = |it: &GetPluginCapabilitiesResponse| capabilities(it.capabilities.len());
        report.rpc("GetPluginCapabilities", call, shown).await?;
        let call = identity.probe(ProbeRequest {});
        let shown = |_: &_| "ready".to_owned();
        report.rpc("Probe", call, shown).await?;
        let call = controller.controller_get_capabilities(ControllerGetCapabilitiesRequest {});
        let shown = |it: &ControllerGetCapabilitiesResponse| capabilities(it.capabilities.len());
        report.rpc("ControllerGetCapabilities", call, shown).await?;
        let call = node.node_get_capabilities(NodeGetCapabilitiesRequest {});
        let shown = |it: &NodeGetCapabilitiesResponse| capabilities(it.capabilities.len());
        report.rpc("NodeGetCapabilities", call, shown).await?;
        let call = node.node_get_info(NodeGetInfoRequest {});
        let shown = |it: &NodeGetInfoResponse| format!("node {}", it.node_id);
        report.rpc("NodeGetInfo", call, shown).await?;
        let call = controller.get_capacity(GetCapacityRequest::default());
        let shown = |it: &GetCapacityResponse| mebibytes(it.available_capacity);
        report.rpc("GetCapacity", call, shown).await.map(drop)
    }

    /// Runs all calls until the first rejected one, which is in the report.
    pub(super) async fn set_up_and_use(&mut self) -> Result<(), Stopped> {
        let volume = self.create().await?;
        self.mount(&volume).await?;
        self.use_it(&volume).await?;
        self.use_it_read_only(&volume).await?;
        self.expand(&volume).await
    }

    async fn create(&mut self) -> Result<Volume, Stopped> {
        let report = &mut self.report;
        let request = requests::create(NAME, FIRST_BYTES);
        let call = self.clients.controller.create_volume(request.clone());
        let shown =
            |it: &CreateVolumeResponse| it.volume.as_ref().map(describe).unwrap_or_default();
        let created = report.rpc("CreateVolume", call, shown).await?;
        let volume = created
            .volume
            .ok_or_else(|| report.wrong("CreateVolume", "no volume in the answer"))?;
        self.volume = Some(volume.clone());
        let call = self.clients.controller.create_volume(request);
        let is_same = |it: &CreateVolumeResponse| it.volume.as_ref() == Some(&volume);
        let shown = |it: &_| match is_same(it) {
            true => "the same volume".to_owned(),
            false => "another volume".to_owned(),
        };
        let again = report.rpc("  again", call, shown).await?;
        if is_same(&again) {
            return Ok(volume);
        }
        Err(report.wrong("CreateVolume", "not idempotent"))
    }

    async fn mount(&mut self, volume: &Volume) -> Result<(), Stopped> {
        make_directory(&mut self.report, &self.staging).await?;
        let request = NodeStageVolumeRequest {
            volume_context: volume.volume_context.clone(),
            ..requests::stage(&volume.volume_id, &self.staging)
        };
        let call = self.clients.node.node_stage_volume(request);
        let shown = |_: &_| "staged".to_owned();
        self.report.rpc("NodeStageVolume", call, shown).await?;
        self.publish(volume, false).await
    }

    async fn publish(&mut self, volume: &Volume, readonly: bool) -> Result<(), Stopped> {
        let (target, shown) = match readonly {
            true => (&self.second_target, "read-only, to a second pod"),
            false => (&self.target, "to a pod"),
        };
        let report = &mut self.report;
        make_directory(report, target.parent().unwrap_or(target)).await?;
        let request = NodePublishVolumeRequest {
            readonly,
            volume_context: volume.volume_context.clone(),
            ..requests::publish(&volume.volume_id, &self.staging, target)
        };
        let call = self.clients.node.node_publish_volume(request);
        let shown = |_: &_| shown.to_owned();
        report.rpc("NodePublishVolume", call, shown).await.map(drop)
    }

    async fn use_it(&mut self, volume: &Volume) -> Result<(), Stopped> {
        let shown = |sum: &Checksum| format!("8 MiB, sha256 {}", sum.short());
        let act = data::write(&self.target);
        self.written = Some(self.report.act("  write", act, shown).await?);
        self.read(false).await?;
        let request = requests::stats(&volume.volume_id, &self.target);
        let call = self.clients.node.node_get_volume_stats(request);
        let report = &mut self.report;
        report
            .rpc("NodeGetVolumeStats", call, usage)
            .await
            .map(drop)
    }

    async fn use_it_read_only(&mut self, volume: &Volume) -> Result<(), Stopped> {
        self.publish(volume, true).await?;
        self.read(true).await?;
        let shown = |(): &()| "refused: read-only file system".to_owned();
        let act = data::write_is_refused(&self.second_target);
        self.report.act("  write", act, shown).await
    }

    async fn expand(&mut self, volume: &Volume) -> Result<(), Stopped> {
        let request = requests::expand(&volume.volume_id, EXPANDED_BYTES);
        let call = self.clients.controller.controller_expand_volume(request);
        let shown = |it: &ControllerExpandVolumeResponse| mebibytes(it.capacity_bytes);
        let report = &mut self.report;
        let expanded = report.rpc("ControllerExpandVolume", call, shown).await?;
        if expanded.capacity_bytes < EXPANDED_BYTES {
            return Err(report.wrong("ControllerExpandVolume", "smaller than asked"));
        }
        self.read(false).await
    }

    async fn read(&mut self, readonly: bool) -> Result<(), Stopped> {
        let target = match readonly {
            true => &self.second_target,
            false => &self.target,
        };
        let shown = |sum: &Checksum| format!("sha256 {}", sum.short());
        let sum = self.report.act("  read", data::read(target), shown).await?;
        self.seen.push(sum);
        Ok(())
    }

    /// Unpublishes, unstages and deletes, whatever was reached, and continues after a rejected call. Prints the end of the report.
    pub(super) async fn tear_down(&mut self) {
        if let Some(volume) = self.volume.take() {
            self.remove(&volume).await;
        }
        self.report.end();
    }

    async fn remove(&mut self, volume: &Volume) {
        let Clients {
            controller, node, ..
        } = &self.clients;
        let report = &mut self.report;
        for target in [&self.second_target, &self.target] {
            let call = until_not_busy(async || {
                let request = requests::unpublish(&volume.volume_id, target);
                node.clone().node_unpublish_volume(request).await
            });
            let shown = |_: &_| "unpublished".to_owned();
            let _ = report.rpc("NodeUnpublishVolume", call, shown).await;
        }
        let call = until_not_busy(async || {
            let request = requests::unstage(&volume.volume_id, &self.staging);
            node.clone().node_unstage_volume(request).await
        });
        let shown = |_: &_| "unstaged".to_owned();
        let _ = report.rpc("NodeUnstageVolume", call, shown).await;
        let call = until_not_busy(async || {
            let request = DeleteVolumeRequest {
                volume_id: volume.volume_id.clone(),
                ..DeleteVolumeRequest::default()
            };
            controller.clone().delete_volume(request).await
        });
        let shown = |_: &_| "deleted".to_owned();
        let _ = report.rpc("DeleteVolume", call, shown).await;
    }
}

/// Repeats a call while an earlier one for the same volume is in progress (ABORTED), as kubelet would.
async fn until_not_busy<T>(
    call: impl AsyncFn() -> Result<Response<T>, Status>,
) -> Result<Response<T>, Status> {
    let start = Instant::now();
    loop {
        match call().await {
            Err(status) if status.code() == Code::Aborted && start.elapsed() < BUSY => {
                sleep(AGAIN).await;
            }
            answer => return answer,
        }
    }
}

/// Creates the orchestrator's directories: the staging path, and the parent of a target path.
async fn make_directory(report: &mut Report, path: &Path) -> Result<(), Stopped> {
    tokio::fs::create_dir_all(path)
        .await
        .map_err(|error| report.wrong("mkdir", &format!("{}: {error}", path.display())))
}

fn describe(volume: &Volume) -> String {
    let id: String = volume.volume_id.chars().take(SHOWN).collect();
    let rest = if id == volume.volume_id { "" } else { ".." };
    format!("{}, id {id}{rest}", mebibytes(volume.capacity_bytes))
}

fn usage(stats: &NodeGetVolumeStatsResponse) -> String {
    let mut usages = stats.usage.iter();
    match usages.find(|usage| usage.unit() == Unit::Bytes) {
        Some(usage) => {
            let (used, total) = (usage.used / MEBIBYTE, usage.total / MEBIBYTE);
            format!("{used} of {total} MiB used")
        }
        None => "no bytes reported".to_owned(),
    }
}

fn mebibytes(bytes: i64) -> String {
    format!("{} MiB", bytes / MEBIBYTE)
}

fn capabilities(number: usize) -> String {
    match number {
        1 => "1 capability".to_owned(),
        _ => format!("{number} capabilities"),
    }
}
