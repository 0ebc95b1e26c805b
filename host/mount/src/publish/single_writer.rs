//! SINGLE_NODE_SINGLE_WRITER: one publish of a volume, and no second (CSI specification, NodePublishVolume).
//!
//! It is apart because it must hold against records, and against mounts that a lost journal does not know. It must not know how a publish is
//! made.

use super::Publish;
use crate::journal::entry::{Entry, Progress, TargetRecord};
use crate::node::{Node, volume_words};
use std::collections::BTreeSet;
use wasmount_core::mounter::MountError;
use wasmount_core::volume::AccessMode;

impl Node {
    /// Where only one publish may be, a mount counts that the journal does not know: it may have been lost.
    pub(super) fn refuse_unrecorded(&self, publish: &Publish<'_>) -> Result<(), MountError> {
        let request = publish.request;
        let single = AccessMode::SingleNodeSingleWriter;
        let Some(staging_path) = &request.staging_path else {
            return Ok(());
        };
        if request.plan.is_some() || request.capability.access_mode != single {
            return Ok(());
        }
        let staged = self.roots.check(staging_path)?;
        let own = publish.path.in_mount_table()?;
        let elsewhere = self.shown_elsewhere(&request.key, &staged)?;
        match elsewhere.iter().find(|point| Some(*point) != own.as_ref()) {
            None => Ok(()),
            Some(point) => Err(MountError::InUse {
                what: volume_words(&request.key),
                by: format!(
                    "it is published at {}, and only one publish may be (SINGLE_NODE_SINGLE_WRITER)",
                    point.display()
                ),
            }),
        }
    }

    /// Other targets that are recorded as settled and are gone: they are in nobody's way. One that cannot be looked at counts as there.
    pub(super) fn outdated_targets(&self, publish: &Publish<'_>) -> BTreeSet<String> {
        let entry = self.journal.entry(&publish.request.key);
        entry
            .targets
            .iter()
            .filter(|(path, target)| {
                is_single(publish, target)
                    && target.progress == Progress::Settled
                    && self
                        .still_mounted_if(path, target.identity)
                        .is_ok_and(|mounted| !mounted)
            })
            .map(|(path, _)| path.clone())
            .collect()
    }
}

fn is_single(publish: &Publish<'_>, other: &TargetRecord) -> bool {
    let single = AccessMode::SingleNodeSingleWriter;
    publish.request.capability.access_mode == single || other.capability.shape.access_mode == single
}

/// The target that a publish conflicts with (CSI specification, NodePublishVolume, the table of second calls).
pub(super) fn single_writer_conflict(
    publish: &Publish<'_>,
    entry: &Entry,
    outdated: &BTreeSet<String>,
) -> Option<String> {
    entry
        .targets
        .iter()
        .find(|(path, target)| {
            *path != publish.path.text() && is_single(publish, target) && !outdated.contains(*path)
        })
        .map(|(path, _)| format!("it is published at {path}"))
}
