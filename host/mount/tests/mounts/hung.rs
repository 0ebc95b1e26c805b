//! One driver's storage hangs below its pool while another driver of the same host works: the first receives the errors of its thread budget, the
//! second is not affected, and earlier mounts can be torn down.

mod storage;

use crate::attacks::only_device;
use crate::bench::*;
use crate::volume::mounted_as;
use std::collections::BTreeMap;
use std::fs;
use std::panic::Location;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use storage::{Silence, Storage};
use tokio::task::JoinHandle;
use wasmount_core::document::{Grants, PoolGrant, PoolStorage};
use wasmount_core::health::HealthStatus;
use wasmount_core::mounter::{
    HealthQuery, MountError, Mounter, PublishVolume, StageVolume, StatVolume, UnpublishVolume,
    UnstageVolume, VolumeKey, VolumeStats,
};
use wasmount_core::names::{DriverName, VolumeId};
use wasmount_core::plan::{Plan, Source};
use wasmount_core::pool::PoolCall;
use wasmount_core::secrets::SecretOptions;
use wasmount_core::volume::{AccessType, VolumeCapability};
use wasmount_mount::{LocalMounter, MounterConfig, PathRoot};

/// Threads of each driver: few, so that all of them are occupied soon.
const THREADS: usize = 4;
/// Deadline of a call that does not wait for storage that hangs. It takes a hundredth of that on an idle machine.
const AT_ONCE: Duration = Duration::from_secs(4);
/// Deadline of a teardown on storage that hangs: a second of attempts, and two seconds for an answer of the storage.
const SOON: Duration = Duration::from_secs(12);
/// `blkid` may take a minute.
const TOOL_ENDED: Duration = Duration::from_secs(90);

/// One of the two drivers of a host.
#[derive(Clone)]
struct Driver {
    name: DriverName,
    mounter: Arc<dyn Mounter>,
}

/// A host with a working driver and one whose pool is `hung`.
fn two_drivers(bench: &Bench) -> (Driver, Driver) {
    let names = ["healthy.test", "hung.test"].map(|name| DriverName::parse(name).unwrap());
    let [healthy, hung] = names;
    let grants = |pool: &str| Grants {
        pools: BTreeMap::from([(
            "main".to_owned(),
            PoolGrant {
                storage: PoolStorage::Directory(bench.path(pool)),
                full_copies: true,
                mount_options: Vec::new(),
            },
        )]),
        ..Grants::default()
    };
    let mounter = LocalMounter::new(MounterConfig {
        roots: vec![PathRoot::Any(bench.path("kubelet"))],
        own: Vec::new(),
        run_dir: bench.path("run-of-two"),
        state_dir: bench.path("state-of-two"),
        grants: BTreeMap::from([
            (healthy.clone(), grants("pool")),
            (hung.clone(), grants("hung")),
        ]),
        threads_per_driver: THREADS,
        node_root: None,
    });
    let mounter: Arc<dyn Mounter> = Arc::new(mounter.unwrap());
    let of = |name| Driver {
        name,
        mounter: mounter.clone(),
    };
    (of(healthy), of(hung))
}

impl Driver {
    fn key(&self, volume: &str) -> VolumeKey {
        VolumeKey {
            driver: self.name.clone(),
            volume: VolumeId::parse("volume_id", volume).unwrap(),
        }
    }

    fn stage_request(&self, bench: &Bench, volume: &str, plan: Plan) -> StageVolume {
        let _ = fs::create_dir(bench.staging(volume));
        StageVolume {
            key: self.key(volume),
            staging_path: node_path(&bench.staging(volume)),
            capability: capability_of(mounted_as("ext4")),
            plan,
            secret_options: SecretOptions::default(),
        }
    }

    async fn stage(&self, bench: &Bench, volume: &str, plan: Plan) -> Result<(), MountError> {
        let request = self.stage_request(bench, volume, plan);
        self.mounter.stage(request).await
    }

    /// Starts a stage without waiting for it.
    fn begin_stage(
        &self,
        bench: &Bench,
        volume: &str,
        plan: Plan,
    ) -> JoinHandle<Result<(), MountError>> {
        let request = self.stage_request(bench, volume, plan);
        let mounter = self.mounter.clone();
        tokio::spawn(async move { mounter.stage(request).await })
    }

    async fn publish(&self, bench: &Bench, volume: &str) -> Result<(), MountError> {
        let request = PublishVolume {
            key: self.key(volume),
            staging_path: Some(node_path(&bench.staging(volume))),
            target_path: node_path(&bench.target(volume)),
            capability: capability_of(mounted_as("ext4")),
            readonly: false,
            plan: None,
            secret_options: SecretOptions::default(),
        };
        self.mounter.publish(request).await
    }

    async fn stats(&self, bench: &Bench, volume: &str) -> Result<VolumeStats, MountError> {
        let request = StatVolume {
            key: self.key(volume),
            volume_path: node_path(&bench.target(volume)),
            staging_path: None,
        };
        self.mounter.stats(request).await
    }

    async fn health(&self, volume: &str) -> Result<Vec<(HealthStatus, String)>, MountError> {
        let query = HealthQuery {
            key: self.key(volume),
            publish_path: None,
            staging_path: None,
        };
        let findings = self.mounter.health(query).await?.into_iter();
        Ok(findings.map(|it| (it.status, it.reason)).collect())
    }

    async fn unpublish(&self, bench: &Bench, volume: &str) -> Result<(), MountError> {
        let request = UnpublishVolume {
            key: self.key(volume),
            target_path: node_path(&bench.target(volume)),
        };
        self.mounter.unpublish(request).await
    }

    async fn unstage(&self, bench: &Bench, volume: &str) -> Result<(), MountError> {
        let request = UnstageVolume {
            key: self.key(volume),
            staging_path: node_path(&bench.staging(volume)),
        };
        self.mounter.unstage(request).await
    }

    async fn image(&self, name: &str, size_bytes: u64) -> Plan {
        let (pool, path) = ("main".to_owned(), name.to_owned());
        let call = PoolCall::CreateImage {
            pool: pool.clone(),
            path: path.clone(),
            size_bytes,
        };
        self.mounter.pool(self.name.clone(), call).await.unwrap();
        plan(Source::Image { pool, path })
    }

    /// A full volume lifecycle of a tree and of an image, in which no call waits for another driver's storage.
    async fn live(&self, bench: &Bench) {
        if !bench.path("pool/tree").exists() {
            fs::create_dir(bench.path("pool/tree")).unwrap();
        }
        let image = self.image("healthy.img", 32 << 20).await;
        for (volume, plan) in [("healthy-tree", tree("tree")), ("healthy-image", image)] {
            within(AT_ONCE, self.stage(bench, volume, plan))
                .await
                .unwrap();
            within(AT_ONCE, self.publish(bench, volume)).await.unwrap();
            within(AT_ONCE, self.stats(bench, volume)).await.unwrap();
            within(AT_ONCE, self.unpublish(bench, volume))
                .await
                .unwrap();
            within(AT_ONCE, self.unstage(bench, volume)).await.unwrap();
        }
        let call = PoolCall::RemoveImage {
            pool: "main".to_owned(),
            path: "healthy.img".to_owned(),
        };
        let removed = self.mounter.pool(self.name.clone(), call);
        within(AT_ONCE, removed).await.unwrap();
        let unsettled = self.mounter.unsettled(self.name.clone());
        assert_eq!(within(AT_ONCE, unsettled).await, Ok(Vec::new()));
    }
}

fn capability_of(access_type: AccessType) -> VolumeCapability {
    VolumeCapability {
        access_type,
        access_mode: WRITER,
    }
}

#[track_caller]
fn within<T>(limit: Duration, call: impl Future<Output = T>) -> impl Future<Output = T> {
    let caller = Location::caller();
    async move {
        tokio::time::timeout(limit, call)
            .await
            .unwrap_or_else(|_| panic!("the call at {caller} waits for storage that hangs"))
    }
}

async fn wait_until(limit: Duration, holds: impl Fn() -> bool) {
    let end = Instant::now() + limit;
    while !holds() {
        assert!(Instant::now() < end, "it did not come to that");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Whether a `blkid` runs on a device.
fn has_tool(device: &Path) -> bool {
    let device = device.to_str().unwrap();
    let lines = fs::read_dir("/proc").unwrap().filter_map(|process| {
        let line = fs::read(process.ok()?.path().join("cmdline")).ok()?;
        String::from_utf8(line).ok()
    });
    lines
        .map(|line| line.split('\0').map(str::to_owned).collect::<Vec<_>>())
        .any(|words| words[0].ends_with("blkid") && words.iter().any(|word| word == device))
}

#[test]
fn privileged_a_hung_pool_uses_threads_of_its_driver_only() {
    privileged(async |bench| {
        fs::create_dir(bench.path("hung")).unwrap();
        let names = ["a", "b", "1", "2", "3", "4", "5"];
        let storage = Storage::mount(&bench.path("hung"), &names, Silence::Nothing);
        let (healthy, hung) = two_drivers(&bench);
        for volume in ["a", "b"] {
            hung.stage(&bench, volume, tree(volume)).await.unwrap();
            hung.publish(&bench, volume).await.unwrap();
        }
        let figures = hung.stats(&bench, "a").await.unwrap();

        storage.fall_silent();
        for _ in 0..3 {
            let kept = within(AT_ONCE, hung.stats(&bench, "a")).await;
            assert_eq!(kept, Ok(figures));
        }
        // These paths were not queried before.
        let unknown = within(AT_ONCE, hung.stats(&bench, "b")).await;
        assert_eq!(variant(unknown), "Hung");

        let mut stages: Vec<_> = ["1", "2", "3"]
            .map(|volume| hung.begin_stage(&bench, volume, tree(volume)))
            .into();
        let asked = storage.unanswered();
        wait_until(AT_ONCE, || storage.unanswered() >= asked + 3).await;
        healthy.live(&bench).await;
        within(SOON, hung.unpublish(&bench, "a")).await.unwrap();
        within(SOON, hung.unstage(&bench, "a")).await.unwrap();
        assert_eq!(bench.mounts_at(&bench.target("a")), 0);
        assert_eq!(bench.mounts_at(&bench.staging("a")), 0);

        let asked = storage.unanswered();
        stages.push(hung.begin_stage(&bench, "4", tree("4")));
        wait_until(AT_ONCE, || storage.unanswered() > asked).await;
        let refused = within(SOON, hung.stage(&bench, "5", tree("5"))).await;
        assert_eq!(variant(refused), "OutOfThreads");
        // Teardown has separate threads.
        within(SOON, hung.unpublish(&bench, "b")).await.unwrap();
        healthy.live(&bench).await;

        // The connection to its server is cut: hanging calls end, and the threads are free again.
        drop(storage);
        for stage in stages {
            let ended = within(SOON, stage).await.unwrap();
            assert!(ended.is_err(), "{ended:?}");
        }
        within(SOON, hung.unpublish(&bench, "b")).await.unwrap();
        within(SOON, hung.unstage(&bench, "b")).await.unwrap();
        assert_eq!(bench.mounts(), []);
    });
}

#[test]
fn privileged_silent_storage_becomes_a_finding_in_time() {
    privileged(async |bench| {
        fs::create_dir(bench.path("hung")).unwrap();
        let storage = Storage::mount(&bench.path("hung"), &["a", "b"], Silence::Nothing);
        let (healthy, hung) = two_drivers(&bench);
        for volume in ["a", "b"] {
            hung.stage(&bench, volume, tree(volume)).await.unwrap();
            hung.publish(&bench, volume).await.unwrap();
            assert_eq!(hung.health(volume).await, Ok(Vec::new()));
        }
        fs::create_dir(bench.path("pool/tree")).unwrap();
        healthy.stage(&bench, "c", tree("tree")).await.unwrap();

        storage.fall_silent();
        let not_answering = vec![(HealthStatus::Inaccessible, "NotAnswering".to_owned())];
        let found = within(AT_ONCE, hung.health("a")).await;
        assert_eq!(found, Ok(not_answering.clone()));
        // From now on the path is known as hung, for every caller: no further thread hangs.
        let unanswered = storage.unanswered();
        for _ in 0..100 {
            assert_eq!(hung.health("a").await, Ok(not_answering.clone()));
        }
        assert_eq!(storage.unanswered(), unanswered);
        // Its thread is the only one of the driver for such queries, so nothing is known about the other volume.
        let unknown = within(AT_ONCE, hung.health("b")).await;
        assert_eq!(variant(unknown), "OutOfThreads");
        assert_eq!(healthy.health("c").await, Ok(Vec::new()));
        healthy.unstage(&bench, "c").await.unwrap();
        for volume in ["a", "b"] {
            within(SOON, hung.unpublish(&bench, volume)).await.unwrap();
            within(SOON, hung.unstage(&bench, volume)).await.unwrap();
            assert_eq!(variant(hung.health(volume).await), "NotFound");
        }
        drop(storage);
        assert_eq!(bench.mounts(), []);
    });
}

#[test]
fn privileged_a_hung_tool_is_killed() {
    privileged(async |bench| {
        fs::create_dir(bench.path("hung")).unwrap();
        let storage = Storage::mount(&bench.path("hung"), &["v.img"], Silence::Reads);
        let (healthy, hung) = two_drivers(&bench);
        let image = plan(Source::Image {
            pool: "main".to_owned(),
            path: "v.img".to_owned(),
        });
        let stage = hung.begin_stage(&bench, "v", image);
        wait_until(AT_ONCE, || storage.unanswered() > 0).await;
        let device = only_device(&bench);
        for _ in 0..3 {
            healthy.live(&bench).await;
        }
        let unstage = within(SOON, hung.unstage(&bench, "v")).await;
        assert_eq!(unstage, Ok(()));
        assert!(has_tool(&device), "it waits for a read of its device");
        wait_until(TOOL_ENDED, || !has_tool(&device)).await;
        // The thread may still be in the kernel, which waits for the read before it releases the device: this occupies the driver's own budget.
        drop(storage);
        let ended = within(SOON, stage).await.unwrap();
        assert_eq!(variant(ended), "Hung");
        wait_until(SOON, || bench.loop_devices() == 0).await;
        assert_eq!(bench.mounts(), []);
    });
}
