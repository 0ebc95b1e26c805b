//! Failures of one driver beside the work of another driver, on one host.

use crate::bench::*;
use crate::dead_storage::mount_dead_storage;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wasmount_core::device_fact::DeviceFact;
use wasmount_core::document::{Grants, PoolGrant, PoolStorage};
use wasmount_core::mounter::{Mounter, UnpublishVolume, UnstageVolume, VolumeKey};
use wasmount_core::names::DriverName;
use wasmount_core::plan::Source;
use wasmount_core::pool::{PoolCall, PoolReply};
use wasmount_core::volume::AccessType;
use wasmount_mount::{LocalMounter, MounterConfig, PathRoot};

/// Deadline of calls that do not have to wait. It is generous because other tests share the machine.
const AT_ONCE: Duration = Duration::from_secs(2);
/// One wait for the answer of a driver whose storage hangs.
const ONCE: Duration = Duration::from_secs(4);
/// Number of threads that the bench gives a driver.
const THREADS: usize = 16;
/// How long a stage waits for a missing device, in milliseconds: longer than a teardown of another volume may take.
const WAIT_MS: u32 = 3000;

fn named(name: &str) -> DriverName {
    DriverName::parse(name).unwrap()
}

fn pool_at(bench: &Bench, path: &str) -> Grants {
    Grants {
        pools: BTreeMap::from([(
            "main".to_owned(),
            PoolGrant {
                storage: PoolStorage::Directory(bench.path(path)),
                full_copies: false,
                mount_options: Vec::new(),
            },
        )]),
        ..Grants::default()
    }
}

/// A host with two drivers that have a pool each.
fn two_drivers(bench: &Bench, healthy: &str, other: &str) -> LocalMounter {
    LocalMounter::new(MounterConfig {
        roots: vec![PathRoot::Any(bench.path("kubelet"))],
        own: Vec::new(),
        run_dir: bench.path("run-of-two"),
        state_dir: bench.path("state-of-two"),
        grants: BTreeMap::from([
            (named("healthy.test"), pool_at(bench, healthy)),
            (named("other.test"), pool_at(bench, other)),
        ]),
        threads_per_driver: THREADS,
        node_root: None,
    })
    .unwrap()
}

async fn remove(mounter: &LocalMounter, path: &str) {
    let call = PoolCall::RemoveDirectory {
        pool: "main".to_owned(),
        path: path.to_owned(),
    };
    let removed = mounter.pool(named("healthy.test"), call).await;
    assert_eq!(removed, Ok(PoolReply::Done), "{path}");
}

#[test]
fn privileged_a_hung_pool_does_not_delay_other_removals() {
    privileged_alone(async |bench| {
        let hung = bench.path("outside");
        let connection = mount_dead_storage(&hung);
        let mounter = two_drivers(&bench, "pool", "outside/pool");
        for name in ["a", "b", "c"] {
            fs::create_dir(bench.path("pool").join(name)).unwrap();
        }
        let asked = Instant::now();
        remove(&mounter, "a").await;
        assert!(asked.elapsed() < ONCE, "{:?}", asked.elapsed());
        // No further query is made while the first is unanswered.
        let asked = Instant::now();
        remove(&mounter, "b").await;
        remove(&mounter, "c").await;
        assert!(asked.elapsed() < AT_ONCE, "{:?}", asked.elapsed());
        drop(connection);
    });
}

#[test]
fn privileged_stages_waiting_for_devices_delay_no_teardown() {
    privileged(async |bench| {
        bench.in_use("v").await;
        let bench = Arc::new(bench);
        let absent = Source::Device {
            facts: vec![(
                DeviceFact::ById.name().to_owned(),
                "wasmount-test-that-never-comes".to_owned(),
            )],
            wait_ms: WAIT_MS,
        };
        let mut stages = Vec::new();
        for number in 0..THREADS {
            let name = format!("absent-{number}");
            fs::create_dir(bench.staging(&name)).unwrap();
            let mut request = bench.stage_request(&name, capability(WRITER));
            request.capability.access_type = AccessType::Block;
            request.plan = plan(absent.clone());
            let mounter = bench.mounter.clone();
            stages.push(tokio::spawn(async move { mounter.stage(request).await }));
        }
        // Each is recorded before it waits, beside the volume that is in use.
        let waiting = async {
            while bench.journal_files().len() <= THREADS {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(AT_ONCE, waiting).await.unwrap();
        let asked = Instant::now();
        bench
            .mounter
            .unpublish(UnpublishVolume {
                key: key("v"),
                target_path: node_path(&bench.target("v")),
            })
            .await
            .unwrap();
        assert_eq!(bench.mounter.notes(key("v")).await.unwrap().len(), 1);
        bench.mounter.recover(key("v")).await.unwrap();
        bench.unstage("v").await.unwrap();
        assert!(asked.elapsed() < AT_ONCE, "{:?}", asked.elapsed());
        for stage in stages {
            assert_eq!(variant(stage.await.unwrap()), "NotFound");
        }
    });
}

/// The grants were disjoint when they were given; since then a link of the administrator leads into the other pool.
#[test]
fn privileged_a_neighbours_record_does_not_stand_for_ones_own() {
    privileged(async |bench| {
        let link = bench.path("link");
        symlink(bench.path("outside"), &link).unwrap();
        let mounter = two_drivers(&bench, "pool", "link");
        fs::remove_file(&link).unwrap();
        fs::create_dir_all(bench.path("pool/below/v")).unwrap();
        symlink(bench.path("pool/below"), &link).unwrap();
        let key = VolumeKey {
            driver: named("other.test"),
            ..key("v")
        };
        fs::create_dir(bench.staging("v")).unwrap();
        let mut request = bench.stage_request("v", capability(WRITER));
        request.key = key.clone();
        mounter.stage(request).await.unwrap();
        let remove_below = || PoolCall::RemoveDirectory {
            pool: "main".to_owned(),
            path: "below".to_owned(),
        };
        for _ in 0..3 {
            let refused = mounter.pool(named("healthy.test"), remove_below()).await;
            assert_eq!(variant(refused), "InUse");
        }
        let unstage = UnstageVolume {
            key,
            staging_path: node_path(&bench.staging("v")),
        };
        mounter.unstage(unstage).await.unwrap();
        let removed = mounter.pool(named("healthy.test"), remove_below()).await;
        assert_eq!(removed, Ok(PoolReply::Done));
    });
}

#[test]
fn privileged_a_pool_in_another_drivers_pool_is_not_served() {
    privileged(async |bench| {
        let mounter = two_drivers(&bench, "pool", "pool/below");
        let capacity = |driver: &str| {
            let call = PoolCall::Capacity {
                pool: "main".to_owned(),
            };
            mounter.pool(named(driver), call)
        };
        capacity("healthy.test").await.unwrap();
        assert_eq!(variant(capacity("other.test").await), "NotGranted");
        let refused =
            mounter.set_grants(&named("third.test"), Some(pool_at(&bench, "kubelet/pool")));
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("pool `main` of third.test"), "{refused}");
        let taken = mounter.set_grants(&named("other.test"), Some(pool_at(&bench, "pool")));
        assert_eq!(taken, Ok(()));
        capacity("other.test").await.unwrap();
    });
}
