//! Tells the pools what mounted volumes use, so that no guest can remove it under a pod.
//!
//! It is apart because it is the one bridge from pools to mounts. A record alone does not count when its mount is gone: after a power cut, or
//! a full journal disk, a stale one must not keep a volume from being deleted.

use crate::journal::entry::{Entry, Progress};
use crate::node::Node;
use crate::pool::InUse;
use std::sync::Arc;
use wasmount_core::names::DriverName;
use wasmount_core::plan::{Plan, Source};

/// What volumes of one driver use.
pub(crate) struct DriverVolumes {
    pub(crate) node: Arc<Node>,
    pub(crate) driver: DriverName,
}

impl InUse for DriverVolumes {
    fn paths(&self, pool: &str) -> Vec<String> {
        self.node
            .journal
            .of_driver(&self.driver)
            .iter()
            .filter(|entry| self.node.has_mounts(entry))
            .flat_map(plans)
            .filter_map(|plan| path_in(pool, plan))
            .collect()
    }
}

impl Node {
    /// Whether any mount of a volume is there, or coming. One that cannot be looked at counts as there.
    fn has_mounts(&self, entry: &Entry) -> bool {
        entry.mounts().any(|(path, progress, identity)| {
            progress == Progress::Coming || self.still_mounted(path, identity).unwrap_or(true)
        })
    }
}

fn plans(entry: &Entry) -> impl Iterator<Item = &Plan> {
    let stage = entry.stage.iter().map(|stage| &stage.plan);
    let targets = entry
        .targets
        .values()
        .filter_map(|target| target.plan.as_ref());
    stage.chain(targets)
}

fn path_in(wanted: &str, plan: &Plan) -> Option<String> {
    match &plan.source {
        Source::Directory { pool, path } | Source::Image { pool, path } => {
            (pool == wanted).then(|| path.clone())
        }
        Source::Device { .. }
        | Source::Filesystem { .. }
        | Source::Tmpfs { .. }
        | Source::Files { .. } => None,
    }
}
