//! The lifecycle of one volume as an orchestrator drives it, from the first request to the plugin until the volume is deleted. The paths are
//! laid out as kubelet's. It stops at the first rejected call; the rest is done by `tear_down`.

use super::data::{self, Checksum};
use super::report::{Report, Stopped};
use super::requests::{self, EXPANDED_BYTES};
use super::tear_down;
use crate::clients::Clients;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use wasmount_csi::wire::csi::v1::volume_usage::Unit;
use wasmount_csi::wire::csi::v1::{
    ControllerGetCapabilitiesRequest, GetCapacityRequest, GetPluginCapabilitiesRequest,
    GetPluginInfoRequest, NodeGetCapabilitiesRequest, NodeGetInfoRequest,
    NodeGetVolumeStatsResponse, ProbeRequest, Volume,
};

/// Bytes in a mebibyte, the unit of the table.
const MEBIBYTE: i64 = 1 << 20;

/// Characters of an id in the table: an id may have 128, a line 80.
const SHOWN: usize = 20;

/// Part of the staging path: kubelet puts the hash of the volume's id there, and the host accepts any.
const VOLUME_HASH: &str = "d2a84f4b8b650937ec8f73cd8be2c74add5a911ba64df27458ed8229da804a26";

/// The progress of the lifecycle.
#[derive(Debug)]
pub(super) struct Journey {
    clients: Clients,
    staging: PathBuf,
    target: PathBuf,
    second_target: PathBuf,
    volume: Option<Volume>,
    written: Option<Checksum>,
    seen: Vec<Checksum>,
}

/// The result of reading the data back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Data {
    /// Read back this many times, the same each time.
    Intact(usize, Checksum),
    /// Read back with another checksum.
    Changed,
    /// Not read back as often as planned: the lifecycle stopped before.
    Unread,
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

    /// Runs all calls until the first rejected one, which is in the report.
    pub(super) async fn set_up_and_use(&mut self, report: &mut Report<'_>) -> Result<(), Stopped> {
        let volume = self.create(report).await?;
        self.mount(report, &volume).await?;
        self.use_it(report, &volume).await?;
        self.use_it_read_only(report, &volume).await?;
        self.expand(report, &volume).await
    }

    /// The result of reading the data back.
    pub(super) fn data(&self) -> Data {
        match self.written {
            Some(written) if self.seen.iter().any(|seen| *seen != written) => Data::Changed,
            Some(written) if self.seen.len() == Self::READS => Data::Intact(Self::READS, written),
            _ => Data::Unread,
        }
    }

    /// The calls of an orchestrator before it creates a volume.
    pub(super) async fn ask(&mut self, report: &mut Report<'_>) -> Result<(), Stopped> {
        let Clients {
            identity,
            controller,
            node,
            ..
        } = &mut self.clients;
        report
            .rpc(
                "GetPluginInfo",
                identity.get_plugin_info(GetPluginInfoRequest {}),
                |it| format!("{} {}", it.name, it.vendor_version),
            )
            .await?;
        report
            .rpc(
                "GetPluginCapabilities",
                identity.get_plugin_capabilities(GetPluginCapabilitiesRequest {}),
                |it| count(it.capabilities.len(), "capability", "capabilities"),
            )
            .await?;
        report
            .rpc("Probe", identity.probe(ProbeRequest {}), |_| {
                "ready".to_owned()
            })
            .await?;
        report
            .rpc(
                "ControllerGetCapabilities",
                controller.controller_get_capabilities(ControllerGetCapabilitiesRequest {}),
                |it| count(it.capabilities.len(), "capability", "capabilities"),
            )
            .await?;
        report
            .rpc(
                "NodeGetCapabilities",
                node.node_get_capabilities(NodeGetCapabilitiesRequest {}),
                |it| count(it.capabilities.len(), "capability", "capabilities"),
            )
            .await?;
        report
            .rpc(
                "NodeGetInfo",
                node.node_get_info(NodeGetInfoRequest {}),
                |it| format!("node {}", it.node_id),
            )
            .await?;
        report
            .rpc(
                "GetCapacity",
                controller.get_capacity(GetCapacityRequest::default()),
                |it| format!("{} MiB", it.available_capacity / MEBIBYTE),
            )
            .await?;
        Ok(())
    }

    async fn create(&mut self, report: &mut Report<'_>) -> Result<Volume, Stopped> {
        let created = report
            .rpc(
                "CreateVolume",
                self.clients.controller.create_volume(requests::create()),
                |it| it.volume.as_ref().map_or_else(String::new, describe),
            )
            .await?;
        let volume = created
            .volume
            .ok_or_else(|| report.wrong("CreateVolume", "no volume in the answer"))?;
        self.volume = Some(volume.clone());
        let again = report
            .rpc(
                "  again",
                self.clients.controller.create_volume(requests::create()),
                |it| match &it.volume {
                    Some(same) if *same == volume => "the same volume".to_owned(),
                    _ => "another volume".to_owned(),
                },
            )
            .await?;
        if again.volume.as_ref() != Some(&volume) {
            return Err(report.wrong("CreateVolume", "not idempotent"));
        }
        Ok(volume)
    }

    async fn mount(&mut self, report: &mut Report<'_>, volume: &Volume) -> Result<(), Stopped> {
        make_directory(report, &self.staging).await?;
        report
            .rpc(
                "NodeStageVolume",
                self.clients
                    .node
                    .node_stage_volume(requests::stage(volume, &self.staging)),
                |_| "staged".to_owned(),
            )
            .await?;
        self.publish(report, volume, false).await
    }

    async fn publish(
        &mut self,
        report: &mut Report<'_>,
        volume: &Volume,
        readonly: bool,
    ) -> Result<(), Stopped> {
        let target = if readonly {
            &self.second_target
        } else {
            &self.target
        };
        make_directory(report, target.parent().unwrap_or(target)).await?;
        report
            .rpc(
                "NodePublishVolume",
                self.clients.node.node_publish_volume(requests::publish(
                    volume,
                    &self.staging,
                    target,
                    readonly,
                )),
                |_| {
                    if readonly {
                        "read-only, to a second pod"
                    } else {
                        "to a pod"
                    }
                    .to_owned()
                },
            )
            .await?;
        Ok(())
    }

    async fn use_it(&mut self, report: &mut Report<'_>, volume: &Volume) -> Result<(), Stopped> {
        let written = report
            .act("  write", data::write(&self.target), |sum| {
                format!("8 MiB, sha256 {}", sum.short())
            })
            .await?;
        self.written = Some(written);
        let target = self.target.clone();
        self.read(report, &target).await?;
        report
            .rpc(
                "NodeGetVolumeStats",
                self.clients
                    .node
                    .node_get_volume_stats(requests::stats(volume, &self.target)),
                usage,
            )
            .await?;
        Ok(())
    }

    async fn use_it_read_only(
        &mut self,
        report: &mut Report<'_>,
        volume: &Volume,
    ) -> Result<(), Stopped> {
        self.publish(report, volume, true).await?;
        let target = self.second_target.clone();
        self.read(report, &target).await?;
        report
            .act("  write", data::write_is_refused(&target), |()| {
                "refused: read-only file system".to_owned()
            })
            .await
    }

    async fn expand(&mut self, report: &mut Report<'_>, volume: &Volume) -> Result<(), Stopped> {
        let expanded = report
            .rpc(
                "ControllerExpandVolume",
                self.clients
                    .controller
                    .controller_expand_volume(requests::expand(volume)),
                |it| format!("{} MiB", it.capacity_bytes / MEBIBYTE),
            )
            .await?;
        if expanded.capacity_bytes < EXPANDED_BYTES {
            return Err(report.wrong("ControllerExpandVolume", "smaller than asked"));
        }
        let target = self.target.clone();
        self.read(report, &target).await
    }

    async fn read(&mut self, report: &mut Report<'_>, target: &Path) -> Result<(), Stopped> {
        let sum = report
            .act("  read", data::read(target), |sum| {
                format!("sha256 {}", sum.short())
            })
            .await?;
        self.seen.push(sum);
        Ok(())
    }

    /// Undoes everything, whatever was reached.
    pub(super) async fn tear_down(&mut self, report: &mut Report<'_>) {
        if let Some(volume) = self.volume.take() {
            let targets = [&*self.second_target, &*self.target];
            tear_down::all(&self.clients, report, &volume, &self.staging, targets).await;
        }
    }
}

/// Creates the orchestrator's directories: the staging path, and the parent of a target path.
async fn make_directory(report: &mut Report<'_>, path: &Path) -> Result<(), Stopped> {
    data::make_directory(path.to_owned())
        .await
        .map_err(|error| report.wrong("mkdir", &format!("{}: {error}", path.display())))
}

fn describe(volume: &Volume) -> String {
    let id: String = volume.volume_id.chars().take(SHOWN).collect();
    let rest = if id == volume.volume_id { "" } else { ".." };
    format!("{} MiB, id {id}{rest}", volume.capacity_bytes / MEBIBYTE)
}

fn usage(stats: &NodeGetVolumeStatsResponse) -> String {
    stats
        .usage
        .iter()
        .find(|usage| usage.unit() == Unit::Bytes)
        .map_or_else(
            || "no bytes reported".to_owned(),
            |usage| {
                format!(
                    "{} of {} MiB used",
                    usage.used / MEBIBYTE,
                    usage.total / MEBIBYTE
                )
            },
        )
}

fn count(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}
