//! What is wrong with a volume on this node (CSI 1.13, NodeGetVolumeHealth), as journal and kernel show it, at each of its places.
//!
//! It is apart because it only reads: it holds no claim, so whatever changes beneath it is left out of its answer, and it puts its questions to
//! storage with the deadline and on the threads of statistics, so that it keeps nobody from tearing down. It must not know what a fact
//! means: `findings` decides that, and opens nothing.

mod errors;
mod facts;
mod findings;

use crate::block::BlockRecord;
use crate::bound_device;
use crate::failure::shown;
use crate::journal::entry::{Entry, Progress, RecordedCapability};
use crate::node::{Node, volume_words};
use crate::plan::{self, CheckedSource};
use crate::stats::{Recorded, not_mounted, unanswered_words};
use crate::stats_cache::ANSWER_WITHIN;
use findings::findings;
use std::sync::Arc;
use std::time::Instant;
use wasmount_core::health::{Health, HealthStatus, merged};
use wasmount_core::mounter::{HealthQuery, MountError, VolumeKey};
use wasmount_core::plan::Plan;

/// Where a volume is settled: staged or published.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    path: String,
    recorded: Recorded,
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
            (None, None) if places.is_empty() => Err(MountError::NotFound {
                what: format!("a stage or publish of {} on this node", volume_words(key)),
            }),
            (None, None) => Ok(places),
        }
    }

    fn all_places(&self, entry: &Entry) -> Vec<Place> {
        let source = |plan: &Plan, capability: &RecordedCapability| {
            let grants = self.grants_of(&entry.key.driver);
            let checked = plan::check(plan, &capability.shape, false, &grants);
            checked.ok().map(|checked| checked.source)
        };
        let staged = entry.settled_stage();
        let stage = staged.and_then(|stage| {
            let recorded = match (stage.identity, stage.block) {
                (Some(identity), _) => Recorded::Mount(identity),
                (None, Some(block)) => Recorded::Device(block),
                (None, None) => return None,
            };
            Some(Place {
                path: stage.path.clone(),
                recorded,
                is_read_only: stage.read_only,
                block: stage.block,
                source: source(&stage.plan, &stage.capability),
            })
        });
        let targets = entry.targets.iter().filter_map(|(path, target)| {
            let identity = target.identity?;
            let shown = staged.filter(|_| target.shows_stage);
            (target.progress == Progress::Settled).then(|| Place {
                path: path.clone(),
                recorded: if target.capability.is_raw() {
                    Recorded::Node(identity)
                } else {
                    Recorded::Mount(identity)
                },
                is_read_only: target.read_only,
                block: target.block.or(shown.and_then(|stage| stage.block)),
                source: source(&target.plan, &target.capability),
            })
        });
        stage.into_iter().chain(targets).collect()
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
        Some(path) => Some(bound_device::recorded_path(node, key, path.as_str()).await?),
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
        let what = words(key, &place);
        let answer = node.ask_storage(&key.driver, &place.path, question);
        let findings = answer.await?.map(|facts| findings(&what, &facts));
        let is_over = findings.is_none() || asked_at.elapsed() >= ANSWER_WITHIN;
        found.push((
            place,
            findings.unwrap_or_else(|| vec![not_answering(&what)]),
        ));
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

fn not_answering(what: &str) -> Health {
    Health {
        status: HealthStatus::Inaccessible,
        reason: "NotAnswering".to_owned(),
        message: format!("{what}: {}", unanswered_words()),
    }
}

fn words(key: &VolumeKey, place: &Place) -> String {
    format!("{} at {}", volume_words(key), shown(&place.path))
}
