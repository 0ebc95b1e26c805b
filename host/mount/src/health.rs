//! The health of a volume on this node (CSI 1.13, NodeGetVolumeHealth): what journal and kernel show at each path of the volume.
//!
//! It only reads and holds no claim, so a mount that changes meanwhile is left out of the answer. It accesses storage with the deadline and on the
//! threads of statistics, so it does not delay a teardown.

mod facts;
mod findings;

use crate::block::BlockRecord;
use crate::failure::shown;
use crate::journal::{Progress, Shows};
use crate::node::{Node, describe_volume};
use crate::plan::{self, CheckedSource};
use crate::stats::{not_here, not_mounted, recorded_path};
use crate::stats_cache::RunningQuery;
use findings::Finding;
use std::sync::{Arc, Mutex};
use wasmount_core::health::{Health, merged};
use wasmount_core::mounter::{HealthQuery, MountError, VolumeKey};
use wasmount_core::mutex::lock;

/// A path at which a volume is settled: staged or published.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    path: String,
    shows: Shows,
    is_read_only: bool,
    block: Option<BlockRecord>,
    /// `None`: under the current grants the recorded plan is not valid any more.
    source: Option<CheckedSource>,
}

impl Node {
    /// The settled paths that a query covers. A path whose mount is being made or removed is skipped, because its state means nothing.
    fn places(
        &self,
        key: &VolumeKey,
        publish_path: Option<&str>,
        staging_path: Option<&str>,
    ) -> Result<Vec<Place>, MountError> {
        let entry = self.journal.entry(key);
        let grants = self.grants_of(&key.driver);
        let staged = entry.settled_stage().and_then(|stage| stage.block);
        let is_covered = |path| match (publish_path, staging_path) {
            (None, None) => true,
            (target, staging) => target == Some(path) || staging == Some(path),
        };
        let settled = entry.paths().filter(|at| at.progress == Progress::Settled);
        let covered = settled.filter(|at| is_covered(at.path));
        let places = covered.filter_map(|at| {
            let checked = plan::check(at.plan, &at.capability.shape, false, &grants);
            Some(Place {
                path: at.path.to_owned(),
                shows: at.shows()?,
                is_read_only: at.read_only,
                block: at.block.or(staged),
                source: checked.ok().map(|checked| checked.source),
            })
        });
        let mut places: Vec<_> = places.collect();
        // The client gives the staging path that the volume would have, if the driver has a stage step, so that one may be missing.
        match publish_path.or(staging_path) {
            Some(path) if !places.iter().any(|place| place.path == path) => {
                return Err(not_mounted(key, path));
            }
            None if places.is_empty() => return Err(not_here(key)),
            _ => {}
        }
        // What the client asked about is said first.
        places.sort_by_key(|place| publish_path != Some(place.path.as_str()));
        Ok(places)
    }
}

/// Checks the covered paths one after the other on one thread, until the time for an answer is over or the storage of one path does not answer.
pub(crate) async fn health(
    node: &Arc<Node>,
    query: HealthQuery,
) -> Result<Vec<Health>, MountError> {
    let key = &query.key;
    let target = match &query.publish_path {
        Some(path) => Some(recorded_path(node, key, path.as_str()).await?),
        None => None,
    };
    let staging = query.staging_path.as_ref().map(|path| path.as_str());
    let places = || node.places(key, target.as_deref(), staging);
    let checked = places()?;
    let found = Arc::new(Mutex::new(Vec::new()));
    let question = {
        let (node, found, checked) = (node.clone(), found.clone(), checked.clone());
        move || {
            for place in checked {
                if node.stats_cache.is_hung(&place.path) {
                    // The other paths of the volume lie on the same storage.
                    break;
                }
                let _query = RunningQuery::begin(&node.stats_cache, &place.path);
                let findings = node.findings(&place)?;
                lock(&found).push(findings);
            }
            Ok(())
        }
    };
    if let Some(first) = checked.first() {
        let answer = node.query_storage(&key.driver, &first.path, question);
        answer.await?;
    }
    let mut found = std::mem::take(&mut *lock(&found));
    if found.len() < checked.len() {
        found.push(vec![Finding::NotAnswering]);
    }
    // A mount that was removed or replaced meanwhile was not faulty.
    let now = places()?;
    let still = checked.into_iter().zip(found);
    let still = still.filter(|(place, _)| now.contains(place));
    Ok(merged(still.flat_map(|(place, findings)| {
        let what = format!("{} at {}", describe_volume(key), shown(&place.path));
        let findings = findings.into_iter();
        findings.map(move |it| it.health(&what))
    })))
}
