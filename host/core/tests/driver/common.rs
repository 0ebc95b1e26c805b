//! Shared values of the tests, and a driver with its three fakes.

use crate::backend::FakeBackend;
use crate::mounter::FakeMounter;
use crate::script::PATIENCE;
use crate::state::FakeState;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wasmount_core::attributes::Attributes;
use wasmount_core::backend::{CreateSnapshot, CreateVolume, NodePublish, NodeStage};
use wasmount_core::call::Incoming;
use wasmount_core::driver::{
    Driver, DriverConfig, Hidden, NodePublishRequest, NodeStageRequest, NodeStatsRequest, Profile,
    Role, ServingPolicy,
};
use wasmount_core::error::Error;
use wasmount_core::names::{DriverName, NodeId, NodePath, RequestedName, SnapshotId, VolumeId};
use wasmount_core::services::{Feature, Service, ServiceSet};
use wasmount_core::volume::{
    AccessMode, AccessType, CapacityRange, ContentSource, MountAccess, VolumeCapability,
};

/// `limits.time` of the tests.
pub(crate) const BUDGET: Duration = Duration::from_secs(60);

pub(crate) struct Bench {
    pub(crate) driver: Arc<Driver>,
    pub(crate) backend: Arc<FakeBackend>,
    pub(crate) mounter: Arc<FakeMounter>,
    pub(crate) state: Arc<FakeState>,
    pub(crate) policy: ServingPolicy,
}

/// A driver whose backend offers these services and features.
pub(crate) fn bench(services: &[Service], features: &[Feature]) -> Bench {
    with_backend(bench_without_plugin(Role::All, &[]), services, features)
}

pub(crate) fn with_backend(bench: Bench, services: &[Service], features: &[Feature]) -> Bench {
    let offer = ServiceSet::new(services.iter().copied(), features.iter().copied());
    let backend = Arc::new(FakeBackend::new(offer));
    bench.driver.activate(backend.clone(), bench.policy.clone());
    Bench { backend, ..bench }
}

/// A driver whose backend offers every interface, and these features.
pub(crate) fn full(features: &[Feature]) -> Bench {
    bench(Service::ALL, features)
}

/// The same driver with CSI 1.13.
pub(crate) fn full_in_1_13(features: &[Feature]) -> Bench {
    bench_in_1_13(Service::ALL, features)
}

/// A driver with CSI 1.13, whose backend offers these services and features.
pub(crate) fn bench_in_1_13(services: &[Service], features: &[Feature]) -> Bench {
    let bench = without_plugin(in_1_13(config(Role::All, &[])));
    with_backend(bench, services, features)
}

impl Bench {
    /// The driver in a new process: same node and store, no plugin yet.
    pub(crate) fn restarted(&self) -> Arc<Driver> {
        Driver::new(
            config(self.driver.role(), &[]),
            self.mounter.clone(),
            self.state.clone(),
        )
    }
}

/// The same driver for clients of CSI 1.13.
pub(crate) fn in_1_13(config: DriverConfig) -> DriverConfig {
    DriverConfig {
        profile: Profile::V1_13,
        ..config
    }
}

pub(crate) fn config(role: Role, hidden: &[&str]) -> DriverConfig {
    DriverConfig {
        name: DriverName::parse("fake.example.com").unwrap(),
        role,
        profile: Profile::V1_12,
        node_id: NodeId::parse("node_id", "host-node").unwrap(),
        policy: policy(hidden),
    }
}

/// The policy of a document that hides these capabilities.
pub(crate) fn policy(hidden: &[&str]) -> ServingPolicy {
    ServingPolicy {
        time_budget: BUDGET,
        hidden: Hidden::parse(hidden).unwrap(),
        ..ServingPolicy::default()
    }
}

/// A driver without a plugin; its backend is not activated.
pub(crate) fn bench_without_plugin(role: Role, hidden: &[&str]) -> Bench {
    without_plugin(config(role, hidden))
}

pub(crate) fn without_plugin(config: DriverConfig) -> Bench {
    let mounter = Arc::new(FakeMounter::default());
    let state = Arc::new(FakeState::default());
    Bench {
        policy: config.policy.clone(),
        driver: Driver::new(config, mounter.clone(), state.clone()),
        backend: Arc::new(FakeBackend::new(ServiceSet::new(
            Service::ALL.iter().copied(),
            [],
        ))),
        mounter,
        state,
    }
}

/// Retries while another call holds the claims, as a client does.
pub(crate) async fn retried<T, F>(mut call: impl FnMut() -> F) -> T
where
    F: Future<Output = Result<T, Error>>,
{
    let begun = Instant::now();
    loop {
        match call().await {
            Err(Error::InFlight { .. }) if begun.elapsed() < PATIENCE => {
                tokio::task::yield_now().await;
            }
            answer => return answer.unwrap(),
        }
    }
}

pub(crate) fn incoming() -> Incoming {
    Incoming {
        request_id: "r".to_owned(),
        ..Incoming::default()
    }
}

pub(crate) fn volume_id(id: &str) -> VolumeId {
    VolumeId::parse("volume_id", id).unwrap()
}

pub(crate) fn snapshot_id(id: &str) -> SnapshotId {
    SnapshotId::parse("snapshot_id", id).unwrap()
}

pub(crate) fn path(path: &str) -> NodePath {
    NodePath::parse("path", path).unwrap()
}

pub(crate) fn attributes(pairs: &[(&str, &str)]) -> Attributes {
    pairs
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

pub(crate) fn capability() -> VolumeCapability {
    VolumeCapability {
        access_type: AccessType::Mount(MountAccess::default()),
        access_mode: AccessMode::SingleNodeWriter,
    }
}

/// CreateVolume; the fake gives the volume the id `id-of-<name>`.
pub(crate) fn create(name: &str) -> CreateVolume {
    CreateVolume {
        name: RequestedName::parse("name", name).unwrap(),
        capacity: CapacityRange::default(),
        capabilities: vec![capability()],
        parameters: Attributes::default(),
        mutable_parameters: Attributes::default(),
        content_source: None,
        accessibility: None,
    }
}

pub(crate) fn create_from(name: &str, source: ContentSource) -> CreateVolume {
    CreateVolume {
        content_source: Some(source),
        ..create(name)
    }
}

pub(crate) fn create_snapshot(name: &str, source: &str) -> CreateSnapshot {
    CreateSnapshot {
        source_volume: volume_id(source),
        name: RequestedName::parse("name", name).unwrap(),
        parameters: Attributes::default(),
        accessibility: None,
    }
}

pub(crate) fn stage(id: &str) -> NodeStageRequest {
    NodeStageRequest {
        volume: NodeStage {
            id: volume_id(id),
            capability: capability(),
            publish_context: Attributes::default(),
            volume_context: Attributes::default(),
        },
        staging_path: path("/staging"),
    }
}

pub(crate) fn publish(id: &str, target: &str) -> NodePublishRequest {
    NodePublishRequest {
        volume: NodePublish {
            id: volume_id(id),
            capability: capability(),
            readonly: false,
            ephemeral: false,
            publish_context: Attributes::default(),
            volume_context: Attributes::default(),
        },
        staging_path: Some(path("/staging")),
        target_path: path(target),
    }
}

pub(crate) fn stats(id: &str) -> NodeStatsRequest {
    NodeStatsRequest {
        id: volume_id(id),
        volume_path: path("/target"),
        staging_path: None,
    }
}
