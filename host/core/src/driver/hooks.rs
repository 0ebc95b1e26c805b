//! The `before-unstage` hook and its limits. A missing plugin, a trap or no answer never blocks an unstage, and a plugin that returns an error is
//! called three times and for at most 30 s.

use super::work::Work;
use crate::attributes::Attributes;
use crate::backend::BackendError;
use crate::error::Error;
use crate::mutex::lock;
use crate::names::VolumeId;
use crate::services::Service;
use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// How often a volume's hook is called (contract, `node-hooks`).
const HOOK_CALLS: u32 = 3;
/// How long a volume's hook may take, counted from its first call (contract, `node-hooks`).
const HOOK_TIME: Duration = Duration::from_secs(30);

/// Volumes whose hook was called and that are not unstaged yet.
#[derive(Default)]
pub(super) struct Hooks(Mutex<HashMap<VolumeId, HookUsage>>);

/// The part of its limits that a volume's hook has used.
#[derive(Debug, Clone, Copy)]
struct HookUsage {
    calls: u32,
    since: Instant,
}

impl HookUsage {
    fn until(self) -> Instant {
        self.since + HOOK_TIME
    }

    fn may_call(self) -> bool {
        self.calls < HOOK_CALLS && Instant::now() < self.until()
    }
}

impl Hooks {
    /// Counts one more call, if the limits allow it.
    fn count_call(&self, id: &VolumeId) -> Option<HookUsage> {
        let mut hooks = lock(&self.0);
        let usage = hooks.entry(id.clone()).or_insert_with(|| HookUsage {
            calls: 0,
            since: Instant::now(),
        });
        usage.may_call().then(|| {
            usage.calls += 1;
            *usage
        })
    }

    /// The volume was unstaged from this node: its next stage starts with fresh limits.
    pub(super) fn forget(&self, id: &VolumeId) {
        lock(&self.0).remove(id);
    }
}

impl Work {
    /// Notifies the backend that a volume is to be unstaged. An error makes the client retry.
    pub(super) async fn before_unstage(&self, id: &VolumeId) -> Result<(), Error> {
        let Some(plugin) = self.plugin() else {
            return Ok(());
        };
        if !plugin.backend.offer().has(Service::NodeHooks) {
            return Ok(());
        }
        let Some(usage) = self.driver.hooks.count_call(id) else {
            tracing::warn!(volume = %id, "before-unstage is not called again: unstaging continues");
            return Ok(());
        };
        let notes = self.notes(id).await;
        let call = self.limited(usage.until());
        let hook = plugin.backend.before_unstage(&call, id.clone(), notes);
        match timeout_at(call.deadline, hook).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) if may_yet_agree(&error) && usage.may_call() => Err(error.into()),
            Ok(Err(error)) => {
                tracing::warn!(volume = %id, %error, "before-unstage failed: unstaging continues");
                Ok(())
            }
            Err(_) => {
                tracing::warn!(volume = %id, "before-unstage gave no answer: unstaging continues");
                Ok(())
            }
        }
    }

    async fn notes(&self, id: &VolumeId) -> Attributes {
        let notes = self.driver.mounter.notes(self.driver.key(id.clone())).await;
        match notes {
            Ok(notes) => notes.into(),
            Err(error) => {
                tracing::warn!(volume = %id, %error, "the notes of the volume cannot be read");
                Attributes::default()
            }
        }
    }
}

/// The plugin works and returned an error, or could not be reached: a retry may succeed. All other errors would repeat.
fn may_yet_agree(error: &BackendError) -> bool {
    matches!(
        error,
        BackendError::Answered { .. }
            | BackendError::Busy { .. }
            | BackendError::MemoryBusy { .. }
            | BackendError::Cancelled
    )
}
