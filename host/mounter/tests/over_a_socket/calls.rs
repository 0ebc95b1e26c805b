//! Each method of the trait returns over the socket what it returns in one process.

use crate::bench::{
    Bench, STATS, addresses, driver, extents, finding, instance, key, status, unstage,
};
use std::collections::BTreeMap;
use wasmount_core::mounter::{
    ExpandVolume, HealthQuery, MountError, Mounter, PublishVolume, StageVolume, Staged,
    StagedQuery, StatVolume, UnpublishVolume,
};
use wasmount_core::names::NodePath;
use wasmount_core::node_fact::NodeFact;
use wasmount_core::plan::{Plan, PlanFile, Source};
use wasmount_core::pool::{PoolCall, PoolReply};
use wasmount_core::secrets::SecretOptions;
use wasmount_core::volume::{AccessMode, AccessType, VolumeCapability};

fn path(path: &str) -> NodePath {
    NodePath::parse("path", path).unwrap()
}

fn capability() -> VolumeCapability {
    VolumeCapability {
        access_type: AccessType::Block,
        access_mode: AccessMode::SingleNodeWriter,
    }
}

fn stage(content: usize) -> StageVolume {
    StageVolume {
        key: key("v"),
        staging_path: path("/stage/v"),
        capability: capability(),
        plan: Plan {
            source: Source::Files {
                files: vec![PlanFile {
                    path: "token".to_owned(),
                    mode: 0o400,
                    content: vec![7; content],
                }],
            },
            default_fs_type: None,
            mount_options: Vec::new(),
            notes: BTreeMap::new(),
            luks: None,
        },
        secret_options: SecretOptions::from_iter([("password".to_owned(), "hunter22".to_owned())]),
    }
}

#[tokio::test]
async fn every_method_answers_as_its_mounter_does() {
    let bench = Bench::start();
    let client = bench.client();
    let staged = StagedQuery {
        key: key("v"),
        staging_path: path("/stage/v"),
        capability: capability(),
    };
    assert_eq!(client.staged(staged).await, Ok(Staged::AsWanted));
    assert_eq!(client.stage(stage(10)).await, Ok(()));
    let notes = client.notes(key("v")).await.unwrap();
    assert_eq!(notes.get("portal").map(String::as_str), Some("a"));
    let publish = PublishVolume {
        key: key("v"),
        staging_path: Some(path("/stage/v")),
        target_path: path("/target/v"),
        capability: capability(),
        readonly: true,
        plan: None,
        secret_options: SecretOptions::default(),
    };
    assert_eq!(client.publish(publish).await, Ok(()));
    let stats = StatVolume {
        key: key("v"),
        volume_path: path("/target/v"),
        staging_path: None,
    };
    assert_eq!(client.stats(stats).await, Ok(STATS));
    let query = HealthQuery {
        key: key("v"),
        publish_path: Some(path("/target/v")),
        staging_path: None,
    };
    assert_eq!(client.health(query).await, Ok(vec![finding()]));
    let expand = ExpandVolume {
        key: key("v"),
        volume_path: path("/target/v"),
        required_bytes: Some(7),
        limit_bytes: None,
        grows_object: false,
    };
    assert_eq!(client.expand(expand).await, Ok(7));
    let unpublish = UnpublishVolume {
        key: key("v"),
        target_path: path("/target/v"),
    };
    assert_eq!(client.unpublish(unpublish).await, Ok(()));
    assert_eq!(client.unstage(unstage("v")).await, Ok(()));
    assert_eq!(client.unsettled(driver()).await, Ok(vec![key("v").volume]));
    assert_eq!(client.status().await, Ok(status()));
    assert_eq!(client.config_drive(driver()).await, Ok(instance()));
    let fact = client.node_fact(driver(), NodeFact::Addresses).await;
    assert_eq!(fact, Ok(addresses()));
    let names: Vec<_> = bench
        .mounter
        .calls()
        .iter()
        .map(|call| call.split(' ').next().unwrap().to_owned())
        .collect();
    let wanted = "staged stage notes publish stats health expand unpublish unstage unsettled status config_drive node_fact";
    assert_eq!(names.join(" "), wanted);
}

#[tokio::test]
async fn a_large_plan_and_its_secrets_arrive_whole() {
    let bench = Bench::start();
    bench.client().stage(stage(1 << 20)).await.unwrap();
    let [call] = bench.mounter.calls().try_into().unwrap();
    assert!(call.contains("1048576 bytes"), "{call}");
    assert!(call.contains("(\"password\", \"hunter22\")"), "{call}");
}

#[tokio::test]
async fn extents_arrive_whole_and_in_their_order() {
    let bench = Bench::start();
    let client = bench.client();
    let (pool, base) = ("data".to_owned(), "a".to_owned());
    let allocated = PoolCall::AllocatedExtents {
        pool: pool.clone(),
        path: base.clone(),
        offset: 4096,
        limit: 7,
    };
    let changed = PoolCall::ChangedExtents {
        pool,
        base,
        target: "b".to_owned(),
        offset: 4096,
        limit: 7,
    };
    for call in [allocated, changed] {
        let answer = client.pool(driver(), call.clone()).await;
        assert_eq!(answer, Ok(PoolReply::Extents(extents())));
        let asked = format!("pool a.b {call:?}");
        assert_eq!(bench.mounter.calls().last(), Some(&asked));
    }
}

#[tokio::test]
async fn errors_arrive_as_they_are_and_a_panic_costs_one_call() {
    let bench = Bench::start();
    let client = bench.client();
    let refused = client.pool(driver(), PoolCall::Names).await;
    let no_space = MountError::no_space("it", "3 of 4");
    assert_eq!(refused, Err(no_space));
    let panicked = client.recover(key("v")).await;
    assert!(matches!(panicked, Err(MountError::Unreachable { .. })));
    // The volume of the panicked call is free again.
    assert_eq!(client.unstage(unstage("v")).await, Ok(()));
    assert_eq!(bench.client().unstage(unstage("v")).await, Ok(()));
}

#[tokio::test]
async fn a_thousand_calls_at_once_are_all_answered() {
    let bench = Bench::start();
    let client = bench.client();
    let calls: Vec<_> = (0..1000)
        .map(|number| {
            let client = client.clone();
            tokio::spawn(async move { client.unstage(unstage(&number.to_string())).await })
        })
        .collect();
    for call in calls {
        assert_eq!(call.await.unwrap(), Ok(()));
    }
    assert_eq!(bench.mounter.ended().len(), 1000);
}
