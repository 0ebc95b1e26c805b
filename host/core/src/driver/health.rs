//! Volume conditions, asked of the backend for the sake of other calls. Apart because a condition must never hold up or fail what it
//! belongs to: it has little time, and its last answer is kept for a while.

use super::work::Work;
use crate::names::VolumeId;
use crate::volume::{VolumeCondition, VolumeEntry};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// Time for a condition, or for those of one page (contract, `volume-health`).
const HEALTH_TIME: Duration = Duration::from_secs(2);
/// How long a condition counts as known. 30 s: kubelet and health-monitor ask once a minute.
const CONDITION_KEPT: Duration = Duration::from_secs(30);
/// From how many kept conditions on the old ones are swept out. 1024: ten times what a node usually has.
const CONDITIONS_SWEPT: usize = 1024;

/// The last condition of each volume, and when it was learnt.
#[derive(Default)]
pub(super) struct Conditions(Mutex<HashMap<VolumeId, (Instant, VolumeCondition)>>);

impl Conditions {
    fn known(&self, id: &VolumeId) -> Option<VolumeCondition> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.get(id)
            .filter(|(learnt, _)| learnt.elapsed() < CONDITION_KEPT)
            .map(|(_, condition)| condition.clone())
    }

    fn keep(&self, id: VolumeId, condition: VolumeCondition) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= CONDITIONS_SWEPT {
            kept.retain(|_, (learnt, _)| learnt.elapsed() < CONDITION_KEPT);
        }
        kept.insert(id, (Instant::now(), condition));
    }
}

impl Work {
    /// The condition of one volume.
    pub(super) async fn condition(&self, id: &VolumeId) -> VolumeCondition {
        self.condition_until(id, Instant::now() + HEALTH_TIME).await
    }

    /// Gives a condition to every volume that has none, as VOLUME_CONDITION demands.
    pub(super) async fn fill_conditions(&self, entries: &mut [VolumeEntry]) {
        let until = Instant::now() + HEALTH_TIME;
        for entry in entries {
            if entry.status.condition.is_none() {
                let condition = self.condition_until(&entry.volume.id, until).await;
                entry.status.condition = Some(condition);
            }
        }
    }

    async fn condition_until(&self, id: &VolumeId, until: Instant) -> VolumeCondition {
        if let Some(known) = self.driver.conditions.known(id) {
            return known;
        }
        if Instant::now() >= until {
            // Not kept: the next page or call goes on from here.
            return not_known("there was no time to ask");
        }
        let asked = self.ask_condition(id, until).await;
        let condition = asked.unwrap_or_else(|reason| not_known(&reason));
        let conditions = &self.driver.conditions;
        conditions.keep(id.clone(), condition.clone());
        condition
    }

    async fn ask_condition(
        &self,
        id: &VolumeId,
        until: Instant,
    ) -> Result<VolumeCondition, String> {
        let backend = self.backend().map_err(|error| error.to_string())?;
        let call = self.limited(until);
        let found = timeout_at(call.deadline, backend.volume_health(&call, id.clone()))
            .await
            .map_err(|_| "the backend did not say in time".to_owned())?
            .map_err(|error| error.to_string())?;
        let findings = found
            .iter()
            .map(|health| format!("{}: {}", health.reason, health.message));
        Ok(VolumeCondition {
            abnormal: !found.is_empty(),
            message: findings.collect::<Vec<_>>().join("; "),
        })
    }
}

/// A volume is not sick because nobody could look.
fn not_known(reason: &str) -> VolumeCondition {
    VolumeCondition {
        abnormal: false,
        message: format!("the condition is not known: {reason}"),
    }
}
