//! Remembers what was refused.

use super::outcome::describe;
use super::{Actor, Purpose};
use crate::disk::Disk;
use crate::reconciler::candidate::CandidateKey;
use crate::refusal::{Refusal, RefusalKind};
use crate::status::RefusedVersion;
use std::sync::{Arc, PoisonError};
use std::time::SystemTime;

impl Actor {
    /// A candidate may not serve. A way back that is closed is no candidate, and neither is what something else came before.
    pub(super) async fn remember(
        &mut self,
        purpose: &Purpose,
        refusal: &Refusal,
        (candidate, origin): (Option<&CandidateKey>, String),
        disk: &Arc<Disk>,
    ) {
        let is_of_candidate = !matches!(purpose, Purpose::Back { .. })
            && !matches!(
                refusal.kind(),
                RefusalKind::History | RefusalKind::Overtaken
            );
        if !is_of_candidate {
            return;
        }
        let refused = RefusedVersion {
            by_document: !matches!(purpose, Purpose::Swap { pinned: true, .. }),
            digest: candidate
                .map(|candidate| candidate.identity.digest.clone())
                .or_else(|| found(refusal)),
            kind: refusal.kind(),
            reason: describe(refusal),
            at: SystemTime::now(),
        };
        self.refusals.note(refused, origin);
        self.report_rejections();
        if let Err(error) = disk.write_refusals(&self.refusals).await {
            tracing::warn!(driver = %self.parts.driver.name(), %error, "rejected versions will be forgotten at the next start");
        }
    }

    pub(super) fn report_rejections(&self) {
        let told = self.shared.refusals.lock();
        *told.unwrap_or_else(PoisonError::into_inner) = self.refusals.newest_first();
    }
}

/// What was there in the place of what was meant.
fn found(refusal: &Refusal) -> Option<String> {
    match refusal {
        Refusal::OtherDigest { found, .. } => Some(found.clone()),
        _ => None,
    }
}
