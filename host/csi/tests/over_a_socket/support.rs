//! Serves a driver for the duration of a test, and calls it.

pub(crate) mod backend;
pub(crate) mod memory;

use backend::MemoryBackend;
use memory::{MemoryMounter, MemoryStore};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Response, Status};
use wasmount_core::driver::{Driver, DriverConfig, Profile, Role, ServingPolicy};
use wasmount_core::names::{DriverName, NodeId};
use wasmount_core::services::{Feature, Service, ServiceSet};
use wasmount_csi::CallMetrics;
use wasmount_csi::server::{ServeError, serve};
use wasmount_csi::wire::csi::v1::controller_client::ControllerClient;
use wasmount_csi::wire::csi::v1::group_controller_client::GroupControllerClient;
use wasmount_csi::wire::csi::v1::identity_client::IdentityClient;
use wasmount_csi::wire::csi::v1::node_client::NodeClient;
use wasmount_csi::wire::csi::v1::snapshot_metadata_client::SnapshotMetadataClient;
use wasmount_csi::wire::csi::v1::volume_capability::access_mode::Mode;
use wasmount_csi::wire::csi::v1::volume_capability::{AccessMode, AccessType, MountVolume};
use wasmount_csi::wire::csi::v1::{self as wire};
use wasmount_socket::BoundSocket;

/// Longer than any step takes on a busy machine; ends a test that hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// More than any test opens without its own limit.
pub(crate) const CONNECTIONS: usize = 4096;

/// The configuration of a driver with CSI 1.12.
pub(crate) fn config(role: Role) -> DriverConfig {
    DriverConfig {
        name: DriverName::parse("memory.wasmount.io").unwrap(),
        role,
        profile: Profile::V1_12,
        node_id: NodeId::parse("node", "node-1").unwrap(),
        policy: ServingPolicy {
            version: Some(7),
            time_budget: PATIENCE,
            ..ServingPolicy::default()
        },
    }
}

/// The same for clients of CSI 1.13.
pub(crate) fn in_1_13(config: DriverConfig) -> DriverConfig {
    DriverConfig {
        profile: Profile::V1_13,
        ..config
    }
}

/// A driver that is served.
pub(crate) struct Served {
    pub(crate) backend: Arc<MemoryBackend>,
    pub(crate) mounter: Arc<MemoryMounter>,
    pub(crate) driver: Arc<Driver>,
    pub(crate) socket: PathBuf,
    pub(crate) shutdown: CancellationToken,
    pub(crate) task: JoinHandle<Result<(), ServeError>>,
    _directory: tempfile::TempDir,
}

impl Served {
    /// A driver with all services and features.
    pub(crate) fn whole() -> Self {
        let features = [
            Feature::CloneVolume,
            Feature::SingleNodeMultiWriter,
            Feature::Topology,
            Feature::SnapshotTopology,
        ];
        Self::offering(ServiceSet::new(Service::ALL.iter().copied(), features))
    }

    /// The same for clients of CSI 1.13.
    pub(crate) fn whole_in_1_13() -> Self {
        let features = [Feature::Topology, Feature::SnapshotTopology];
        let offer = ServiceSet::new(Service::ALL.iter().copied(), features);
        Self::configured(in_1_13(config(Role::All)), offer, CONNECTIONS)
    }

    pub(crate) fn offering(offer: ServiceSet) -> Self {
        Self::in_role(Role::All, offer)
    }

    pub(crate) fn in_role(role: Role, offer: ServiceSet) -> Self {
        Self::with_connections(role, offer, CONNECTIONS)
    }

    pub(crate) fn with_connections(role: Role, offer: ServiceSet, most: usize) -> Self {
        Self::configured(config(role), offer, most)
    }

    pub(crate) fn configured(config: DriverConfig, offer: ServiceSet, most: usize) -> Self {
        let backend = Arc::new(MemoryBackend::new(offer));
        let mounter = Arc::new(MemoryMounter::default());
        let policy = config.policy.clone();
        let driver = Driver::new(
            config,
            Arc::clone(&mounter) as _,
            Arc::new(MemoryStore::default()),
        );
        driver.activate(Arc::clone(&backend) as _, policy);
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("csi.sock");
        let bound = BoundSocket::bind(&socket).unwrap();
        let shutdown = CancellationToken::new();
        let task = tokio::spawn(serve(
            bound,
            Arc::clone(&driver),
            most,
            CallMetrics::default(),
            shutdown.clone(),
        ));
        Self {
            backend,
            mounter,
            driver,
            socket,
            shutdown,
            task,
            _directory: directory,
        }
    }

    /// A separate connection.
    pub(crate) async fn channel(&self) -> Channel {
        let uri = format!("unix://{}", self.socket.display());
        Endpoint::from_shared(uri).unwrap().connect().await.unwrap()
    }

    pub(crate) async fn identity(&self) -> IdentityClient<Channel> {
        IdentityClient::new(self.channel().await)
    }

    pub(crate) async fn controller(&self) -> ControllerClient<Channel> {
        ControllerClient::new(self.channel().await)
    }

    pub(crate) async fn groups(&self) -> GroupControllerClient<Channel> {
        GroupControllerClient::new(self.channel().await)
    }

    pub(crate) async fn metadata(&self) -> SnapshotMetadataClient<Channel> {
        SnapshotMetadataClient::new(self.channel().await)
    }

    pub(crate) async fn node(&self) -> NodeClient<Channel> {
        NodeClient::new(self.channel().await)
    }

    /// A minimal call over a new connection, as kubelet makes it.
    pub(crate) async fn answers(&self) {
        let mut identity = self.identity().await;
        let answer = tokio::time::timeout(
            PATIENCE,
            identity.get_plugin_info(wire::GetPluginInfoRequest {}),
        )
        .await;
        assert_eq!(
            answer.unwrap().unwrap().into_inner().name,
            "memory.wasmount.io"
        );
    }
}

/// Code and message of an error.
#[track_caller]
pub(crate) fn refused<T: std::fmt::Debug>(answer: Result<Response<T>, Status>) -> (Code, String) {
    let status = answer.unwrap_err();
    (status.code(), status.message().to_owned())
}

pub(crate) fn mounted() -> wire::VolumeCapability {
    wire::VolumeCapability {
        access_type: Some(AccessType::Mount(MountVolume::default())),
        access_mode: Some(AccessMode {
            mode: Mode::SingleNodeWriter.into(),
        }),
    }
}

pub(crate) fn volume_named(name: &str) -> wire::CreateVolumeRequest {
    wire::CreateVolumeRequest {
        name: name.to_owned(),
        volume_capabilities: vec![mounted()],
        capacity_range: Some(wire::CapacityRange {
            required_bytes: 1024,
            limit_bytes: 0,
        }),
        ..Default::default()
    }
}

/// Waits until a condition holds; panics if it never does.
pub(crate) async fn until(what: &str, so: impl Fn() -> bool) {
    let waited = tokio::time::timeout(PATIENCE, async {
        while !so() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    });
    assert!(waited.await.is_ok(), "never: {what}");
}
