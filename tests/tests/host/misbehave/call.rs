//! Each call that can misbehave, and where it carries the word for what the plugin is to do: one place, so that a row of a table is a line.

use crate::misbehave::scene::{Driver, word};
use tonic::{Request, Status};
use wasmount_csi::wire::csi::v1::*;
use wasmount_tests::requests::{self, capability};

/// Of the pod of an inline volume.
const POD: [(&str, &str); 5] = [
    ("csi.storage.k8s.io/ephemeral", "true"),
    ("csi.storage.k8s.io/pod.name", "pod"),
    ("csi.storage.k8s.io/pod.namespace", "default"),
    ("csi.storage.k8s.io/pod.uid", "uid"),
    ("csi.storage.k8s.io/serviceAccount.name", "default"),
];

/// A call that needs no volume on the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    Create,
    Delete,
    Validate,
    Publish,
    Unpublish,
    Expand,
    Modify,
    Get,
    List,
    Capacity,
    CreateSnapshot,
    DeleteSnapshot,
    GetSnapshot,
    ListSnapshots,
    CreateGroup,
    DeleteGroup,
    GetGroup,
    Allocated,
    Delta,
    NodeInfo,
    /// Of an inline volume, which has no stage step.
    NodePublish,
}

impl Call {
    /// Makes it with a word; the answer in words.
    pub(crate) async fn with(self, driver: &Driver, behaviour: &str) -> Result<String, Status> {
        match self {
            Call::CreateGroup | Call::DeleteGroup | Call::GetGroup => {
                self.of_group(driver, behaviour).await
            }
            Call::Allocated | Call::Delta => self.of_metadata(driver, behaviour).await,
            Call::CreateSnapshot
            | Call::DeleteSnapshot
            | Call::GetSnapshot
            | Call::ListSnapshots => self.of_snapshot(driver, behaviour).await,
            Call::NodeInfo | Call::NodePublish => self.of_node(driver, behaviour).await,
            _ => self.of_volume(driver, behaviour).await,
        }
    }

    async fn of_volume(self, driver: &Driver, behaviour: &str) -> Result<String, Status> {
        let mut controller = driver.orchestrator.clients().controller;
        let secrets = driver.secrets.clone();
        let volume_id = behaviour.to_owned();
        match self {
            Call::Create => driver.keep(
                controller
                    .create_volume(CreateVolumeRequest {
                        parameters: word(behaviour),
                        secrets,
                        ..requests::create("behave", 1 << 20)
                    })
                    .await,
            ),
            Call::Delete => {
                let request = DeleteVolumeRequest { volume_id, secrets };
                driver.keep(controller.delete_volume(request).await)
            }
            Call::Validate => driver.keep(
                controller
                    .validate_volume_capabilities(ValidateVolumeCapabilitiesRequest {
                        volume_id: "behave".to_owned(),
                        volume_context: word(behaviour),
                        volume_capabilities: vec![capability()],
                        secrets,
                        ..ValidateVolumeCapabilitiesRequest::default()
                    })
                    .await,
            ),
            Call::Publish => driver.keep(
                controller
                    .controller_publish_volume(ControllerPublishVolumeRequest {
                        volume_id: "behave".to_owned(),
                        node_id: "test-node".to_owned(),
                        volume_capability: Some(capability()),
                        readonly: false,
                        secrets,
                        volume_context: word(behaviour),
                    })
                    .await,
            ),
            Call::Unpublish => {
                let request = ControllerUnpublishVolumeRequest {
                    volume_id,
                    node_id: "test-node".to_owned(),
                    secrets,
                };
                driver.keep(controller.controller_unpublish_volume(request).await)
            }
            Call::Expand => driver.keep(
                controller
                    .controller_expand_volume(ControllerExpandVolumeRequest {
                        secrets,
                        ..requests::expand(behaviour, 1 << 20)
                    })
                    .await,
            ),
            Call::Modify => {
                let request = ControllerModifyVolumeRequest {
                    volume_id: "behave".to_owned(),
                    secrets,
                    mutable_parameters: word(behaviour),
                };
                driver.keep(controller.controller_modify_volume(request).await)
            }
            Call::Get => {
                let request = ControllerGetVolumeRequest { volume_id };
                driver.keep(controller.controller_get_volume(request).await)
            }
            Call::Capacity => {
                let request = GetCapacityRequest {
                    parameters: word(behaviour),
                    ..GetCapacityRequest::default()
                };
                driver.keep(controller.get_capacity(request).await)
            }
            _ => driver.keep(controller.list_volumes(ListVolumesRequest::default()).await),
        }
    }

    async fn of_snapshot(self, driver: &Driver, behaviour: &str) -> Result<String, Status> {
        let mut controller = driver.orchestrator.clients().controller;
        let secrets = driver.secrets.clone();
        let snapshot_id = behaviour.to_owned();
        match self {
            Call::CreateSnapshot => {
                let request = CreateSnapshotRequest {
                    source_volume_id: "behave".to_owned(),
                    name: "behave".to_owned(),
                    secrets,
                    accessibility_requirements: None,
                    parameters: word(behaviour),
                };
                driver.keep(controller.create_snapshot(request).await)
            }
            Call::DeleteSnapshot => {
                let request = DeleteSnapshotRequest {
                    snapshot_id,
                    secrets,
                };
                driver.keep(controller.delete_snapshot(request).await)
            }
            Call::GetSnapshot => {
                let request = GetSnapshotRequest {
                    snapshot_id,
                    secrets,
                };
                driver.keep(controller.get_snapshot(request).await)
            }
            _ => driver.keep(
                controller
                    .list_snapshots(ListSnapshotsRequest::default())
                    .await,
            ),
        }
    }

    async fn of_group(self, driver: &Driver, behaviour: &str) -> Result<String, Status> {
        let mut groups = driver.groups.clone();
        let secrets = driver.secrets.clone();
        let group_snapshot_id = behaviour.to_owned();
        match self {
            Call::CreateGroup => {
                let request = CreateVolumeGroupSnapshotRequest {
                    name: "behave".to_owned(),
                    source_volume_ids: vec!["one".to_owned(), "other".to_owned()],
                    secrets,
                    parameters: word(behaviour),
                };
                driver.keep(groups.create_volume_group_snapshot(request).await)
            }
            Call::DeleteGroup => {
                let request = DeleteVolumeGroupSnapshotRequest {
                    group_snapshot_id,
                    snapshot_ids: Vec::new(),
                    secrets,
                };
                driver.keep(groups.delete_volume_group_snapshot(request).await)
            }
            _ => {
                let request = GetVolumeGroupSnapshotRequest {
                    group_snapshot_id,
                    snapshot_ids: Vec::new(),
                    secrets,
                };
                driver.keep(groups.get_volume_group_snapshot(request).await)
            }
        }
    }

    /// Until the stream ends: the last message, or the failure.
    async fn of_metadata(self, driver: &Driver, behaviour: &str) -> Result<String, Status> {
        let mut metadata = driver.metadata.clone();
        let (id, secrets) = (behaviour.to_owned(), driver.secrets.clone());
        let outcome = if self == Call::Allocated {
            let request = GetMetadataAllocatedRequest {
                snapshot_id: id,
                secrets,
                ..GetMetadataAllocatedRequest::default()
            };
            match metadata.get_metadata_allocated(request).await {
                Ok(stream) => drained(stream.into_inner()).await,
                Err(status) => Err(status),
            }
        } else {
            let request = GetMetadataDeltaRequest {
                base_snapshot_id: "behave".to_owned(),
                target_snapshot_id: id,
                secrets,
                ..GetMetadataDeltaRequest::default()
            };
            match metadata.get_metadata_delta(request).await {
                Ok(stream) => drained(stream.into_inner()).await,
                Err(status) => Err(status),
            }
        };
        driver.keep(outcome.map(tonic::Response::new))
    }

    async fn of_node(self, driver: &Driver, behaviour: &str) -> Result<String, Status> {
        let mut node = driver.orchestrator.clients().node;
        if self == Call::NodeInfo {
            return driver.keep(node.node_get_info(NodeGetInfoRequest {}).await);
        }
        let target = driver.orchestrator.target("inline", behaviour);
        let target = target.map_err(|failure| Status::unknown(failure.to_string()))?;
        let mut volume_context = word(behaviour);
        volume_context.extend(POD.map(|(key, value)| (key.to_owned(), value.to_owned())));
        let request = NodePublishVolumeRequest {
            volume_id: format!("inline-{behaviour}"),
            target_path: target.display().to_string(),
            volume_capability: Some(capability()),
            secrets: driver.secrets.clone(),
            volume_context,
            ..NodePublishVolumeRequest::default()
        };
        driver.keep(node.node_publish_volume(Request::new(request)).await)
    }
}

async fn drained<T: std::fmt::Debug>(mut stream: tonic::Streaming<T>) -> Result<String, Status> {
    let mut last = String::new();
    while let Some(message) = stream.message().await? {
        last = format!("{message:?}");
    }
    Ok(last)
}
