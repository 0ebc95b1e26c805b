//! From a version that may serve to one that does. What is waited for is work that anything may come before, and what is written then is done in one
//! go.

use super::outcome::{Times, pin};
use super::{Actor, Purpose};
use crate::disk::Disk;
use crate::reconciler::candidate::{
    AttemptOutcome, CandidateKey, Coming, NotReady, Prepared, Ready,
};
use crate::reconciler::commit::{Commit, watch_drain};
use crate::reconciler::quiesce::prepare;
use crate::refusal::Refusal;
use crate::status::Outcome;
use futures::future::BoxFuture;
use std::sync::Arc;
use tokio::time::Instant;
use wasmount_core::document::VersionPolicy;

impl Actor {
    /// What is to be waited for.
    pub(super) async fn prepare(
        &mut self,
        ready: Box<Ready>,
        purpose: &Purpose,
        disk: &Arc<Disk>,
    ) -> BoxFuture<'static, Result<AttemptOutcome, NotReady>> {
        let digest = &ready.candidate.identity.digest;
        if !self.history.digests().contains(digest) {
            // It is on disk soon, and nobody may come to need it.
            self.tidied = None;
        }
        let coming = self.coming(purpose, &ready.candidate);
        let policy = self.policy(purpose, &ready);
        let commit = self.commit(disk, &policy);
        let needs = commit.needs(&ready, &coming).await;
        let driver = Arc::clone(&self.parts.driver);
        Box::pin(prepare(driver, Arc::clone(disk), ready, needs))
    }

    pub(super) async fn activate(
        &mut self,
        ready: Ready,
        purpose: &Purpose,
        prepared: Prepared,
        disk: &Arc<Disk>,
    ) -> Result<Outcome, Refusal> {
        let (began, proving) = (prepared.began, ready.proving);
        let coming = self.coming(purpose, &ready.candidate);
        let policy = self.policy(purpose, &ready);
        let commit = self.commit(disk, &policy);
        let (running, writing) = commit.activate(ready, coming, prepared).await?;
        let times = Times {
            proving,
            switching: began.elapsed(),
            writing,
        };
        let before = self.running.as_ref().map(|it| it.number);
        let number = running.number;
        let warnings = running.warnings.clone();
        self.running = Some(running);
        self.restores = None;
        let driver = self.parts.driver.name();
        for warning in &warnings {
            tracing::warn!(%driver, "{warning}");
        }
        if let Some(before) = before {
            watch_drain(&self.shared, driver.to_string(), before, policy.drain);
        }
        self.outcome(before, number, true, warnings, times)
    }

    fn commit<'a>(&'a mut self, disk: &'a Arc<Disk>, policy: &'a VersionPolicy) -> Commit<'a> {
        Commit {
            parts: &self.parts,
            shared: &self.shared,
            disk,
            history: &mut self.history,
            running: self.running.as_ref(),
            policy,
        }
    }

    fn coming(&mut self, purpose: &Purpose, candidate: &CandidateKey) -> Coming {
        match purpose {
            Purpose::Restore => Coming::Again,
            Purpose::Converge if self.is_what_served(purpose, candidate) => Coming::Again,
            Purpose::Back { hold, .. } => Coming::Back(hold.clone()),
            Purpose::Converge | Purpose::Swap { pinned: false, .. } => Coming::New {
                proven: self.served_well(),
                hold: None,
            },
            Purpose::Swap { pinned: true, .. } => Coming::New {
                proven: self.served_well(),
                hold: Some(pin(&self.desired)),
            },
        }
    }

    /// How versions follow one another is no part of a version: that of now counts for an earlier one too.
    fn policy(&self, purpose: &Purpose, ready: &Ready) -> VersionPolicy {
        let policy = match purpose {
            Purpose::Restore | Purpose::Back { .. } => &self.desired,
            Purpose::Converge | Purpose::Swap { .. } => &ready.desired,
        };
        policy.document.versions.clone()
    }

    /// Whether the version that is to be replaced had no fault in its last window: then it can be rolled back to, even if it did not serve long.
    fn served_well(&mut self) -> bool {
        let trial = self.running.as_mut().and_then(|it| it.trial.as_mut());
        trial.is_some_and(|trial| trial.faults_until(Instant::now()) == 0)
    }
}
