//! What is wrong with a volume on this node (CSI 1.13, NodeGetVolumeHealth), as journal and kernel show it, at each of its places.
//!
//! It only reads and holds no claim, so what changes beneath it is left out of its answer. It asks storage with the deadline and on the
//! threads of statistics, so it delays no teardown. `facts` looks, `findings` decides what a fact means.

mod facts;
mod findings;

use crate::block::BlockRecord;
use crate::failure::shown;
use crate::journal::{Entry, Progress, Shows};
use crate::node::{Node, volume_words};
use crate::plan::{self, CheckedSource};
use crate::stats::{not_here, not_mounted, recorded_path, unanswered_words};
use crate::stats_cache::ANSWER_WITHIN;
use findings::findings;
use std::sync::Arc;
use std::time::Instant;
use wasmount_core::health::{Health, HealthStatus, merged};
use wasmount_core::mounter::{HealthQuery, MountError, VolumeKey};

/// Where a volume is settled: staged or published.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    path: String,
    shows: Shows,
    is_read_only: bool,
    block: Option<BlockRecord>,
    /// Absent where the grants have changed so much that the plan is none any more.
    source: Option<CheckedSource>,
}

impl Node {
    /// The settled places that a query asks about. One that is coming or going is none: what is seen of it means nothing.
    fn places(
        &self,
        key: &VolumeKey,
        publish_path: Option<&str>,
        staging_path: Option<&str>,
    ) -> Result<Vec<Place>, MountError> {
        let places = self.all_places(&self.journal.entry(key));
        let at = |path: &str| {
            let place = places.iter().find(|place| place.path == path);
            place.cloned().ok_or_else(|| not_mounted(key, path))
        };
        match (publish_path, staging_path) {
            (Some(target), None) => Ok(vec![at(target)?]),
            // The client says where it would be staged, if it has such a step.
            (Some(target), Some(staging)) => {
                let staged = at(staging).ok();
                Ok([at(target)?].into_iter().chain(staged).collect())
            }
            (None, Some(staging)) => Ok(vec![at(staging)?]),
            (None, None) if places.is_empty() => Err(not_here(key)),
            (None, None) => Ok(places),
        }
    }

    fn all_places(&self, entry: &Entry) -> Vec<Place> {
        let grants = self.grants_of(&entry.key.driver);
        let staged = entry.settled_stage().and_then(|stage| stage.block);
        let settled = entry.paths().filter(|at| at.progress == Progress::Settled);
        let places = settled.filter_map(|at| {
            let checked = plan::check(at.plan, &at.capability.shape, false, &grants);
            Some(Place {
                path: at.path.to_owned(),
                shows: at.shows()?,
                is_read_only: at.read_only,
                block: at.block.or(staged),
                source: checked.ok().map(|checked| checked.source),
            })
        });
        places.collect()
    }
}

/// Looks at each place that is asked about, until the time for an answer is over or one does not answer.
pub(crate) async fn health(
    node: &Arc<Node>,
    query: HealthQuery,
) -> Result<Vec<Health>, MountError> {
    let asked_at = Instant::now();
    let key = &query.key;
    let target = match &query.publish_path {
        Some(path) => Some(recorded_path(node, key, path.as_str()).await?),
        None => None,
    };
    let staging = query.staging_path.as_ref().map(|path| path.as_str());
    let places = || node.places(key, target.as_deref(), staging);
    let mut found = Vec::new();
    for place in places()? {
        let question = {
            let (node, place) = (node.clone(), place.clone());
            move || node.facts(&place)
        };
        let what = format!("{} at {}", volume_words(key), shown(&place.path));
        let answer = node.ask_storage(&key.driver, &place.path, question);
        let facts = answer.await?;
        let is_over = facts.is_none() || asked_at.elapsed() >= ANSWER_WITHIN;
        let findings = match facts {
            Some(facts) => findings(&what, &facts),
            None => vec![Health {
                status: HealthStatus::Inaccessible,
                reason: "NotAnswering".to_owned(),
                message: format!("{what}: {}", unanswered_words()),
            }],
        };
        found.push((place, findings));
        // The volume's other places lie on the same storage.
        if is_over {
            break;
        }
    }
    // What was taken down or replaced meanwhile was no fault.
    let now = places()?;
    let still = found.into_iter().filter(|(place, _)| now.contains(place));
    Ok(merged(still.flat_map(|(_, findings)| findings)))
}
