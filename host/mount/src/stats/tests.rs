//! Storage that does not answer, as far as it can be tested without such storage.

use super::*;
use crate::durable::Durable;
use crate::journal::Journal;
use crate::journal::{Progress, RecordedCapability, StageRecord};
use crate::observe::Identity;
use crate::roots::Roots;
use crate::stats_cache::StatsCache;
use crate::threads::Budgets;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use wasmount_core::mutex::lock;
use wasmount_core::names::{DriverName, NodePath, VolumeId};
use wasmount_core::plan::{Plan, Source};
use wasmount_core::volume::{AccessMode, AccessType, MountAccess, VolumeCapability};

const PATH: &str = "/nowhere/a";

fn key() -> VolumeKey {
    VolumeKey {
        driver: DriverName::parse("a.test").unwrap(),
        volume: VolumeId::parse("volume_id", "v").unwrap(),
    }
}

/// A volume that is recorded as staged at [`PATH`], with a query that started this long ago.
fn node(run: &std::path::Path, asked: Duration) -> Arc<Node> {
    let node = Node {
        roots: Roots::new(vec![crate::PathRoot::Any("/nowhere".into())]),
        journal: Journal::open(run).unwrap(),
        durable: Durable::open(&run.join("state")).unwrap(),
        grants: Default::default(),
        stats_cache: StatsCache::default(),
        budgets: Budgets::new(4),
        preparing: crate::exclusive::Claims::new(),
        node_root: None,
        connections: crate::connections::Connections::new(run),
    };
    let capability = VolumeCapability {
        access_type: AccessType::Mount(MountAccess::default()),
        access_mode: AccessMode::SingleNodeWriter,
    };
    let stage = StageRecord {
        progress: Progress::Settled,
        path: PATH.to_owned(),
        capability: RecordedCapability::of(&capability),
        plan: Plan {
            source: Source::Tmpfs { size_bytes: None },
            default_fs_type: None,
            mount_options: Vec::new(),
            notes: BTreeMap::new(),
            luks: None,
        },
        identity: Some(Identity {
            device_major: 0,
            device_minor: 0,
            inode: 0,
        }),
        block: None,
        read_only: false,
    };
    node.journal
        .update(&key(), |entry| {
            entry.stage = Some(stage);
            Ok(())
        })
        .unwrap();
    let since = Instant::now().checked_sub(asked).unwrap();
    lock(&node.stats_cache.running).push((PATH.to_owned(), since));
    Arc::new(node)
}

async fn asked(node: &Arc<Node>) -> Result<VolumeStats, MountError> {
    let request = StatVolume {
        key: key(),
        volume_path: NodePath::parse("volume_path", PATH).unwrap(),
        staging_path: None,
    };
    stats(node, request).await
}

fn answer() -> VolumeStats {
    let bytes = Usage {
        total: 3,
        used: Some(1),
        available: Some(2),
    };
    VolumeStats {
        bytes,
        inodes: None,
    }
}

#[tokio::test]
async fn hung_storage_is_not_asked_again_and_its_last_answer_serves() {
    let run = tempfile::tempdir().unwrap();
    let node = node(run.path(), ANSWER_WITHIN);
    assert!(matches!(asked(&node).await, Err(MountError::Hung { .. })));
    node.stats_cache.keep(PATH.to_owned(), answer());
    assert_eq!(asked(&node).await, Ok(answer()));
    node.stats_cache.forget(PATH);
    assert!(matches!(asked(&node).await, Err(MountError::Hung { .. })));
}

#[test]
fn a_path_is_forgotten_with_the_last_that_asks_it() {
    let run = tempfile::tempdir().unwrap();
    let node = node(run.path(), ANSWER_WITHIN);
    // The first query still hangs.
    drop(RunningQuery::begin(&node.stats_cache, PATH));
    assert!(node.stats_cache.is_hung(PATH));
}

#[test]
fn quick_overlapping_queries_are_not_taken_for_a_hang() {
    let cache = StatsCache::default();
    let mut first = RunningQuery::begin(&cache, PATH);
    let second = RunningQuery::begin(&cache, PATH);
    let early = Instant::now().checked_sub(ANSWER_WITHIN).unwrap();
    lock(&cache.running)[0].1 = early;
    first.query.1 = early;
    assert!(cache.is_hung(PATH));
    drop(first);
    assert!(!cache.is_hung(PATH));
    drop(second);
    assert!(lock(&cache.running).is_empty());
}

#[tokio::test]
async fn storage_that_was_asked_just_now_is_asked_again() {
    let run = tempfile::tempdir().unwrap();
    let node = node(run.path(), Duration::ZERO);
    node.stats_cache.keep(PATH.to_owned(), answer());
    // Nothing is mounted there: the answer comes from the kernel and not from the cache.
    let asked = asked(&node).await;
    assert!(
        matches!(asked, Err(MountError::NotFound { .. })),
        "{asked:?}"
    );
}
