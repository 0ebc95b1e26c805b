//! What a backend says of a volume's health, and for how long that holds. Apart because three kinds of calls ask it, and a backend that hangs
//! must not be asked by each of them for each volume.

use super::HEALTH_TIME;
use crate::backend::BackendError;
use crate::code::Code;
use crate::driver::work::Work;
use crate::error::Error;
use crate::health::{Health, merged};
use crate::names::VolumeId;
use crate::rpc::Rpc;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// How long an answer counts as known. 30 s: kubelet and health-monitor ask once a minute.
const ANSWER_KEPT: Duration = Duration::from_secs(30);
/// From how many kept answers on the old ones are swept out. 1024: ten times what a node usually has. Where so many are young, at twice as
/// many again, so that a walk through all volumes of a controller does not sweep at each step.
const ANSWERS_SWEPT: usize = 1024;

/// One answer, errors too: a backend that hangs or traps is not asked again at once.
type Answer = Result<Vec<Health>, BackendError>;

/// The last answer about each volume, in each service.
#[derive(Default)]
pub(in crate::driver) struct Said(Mutex<Kept>);

/// A volume as one service sees it: what a backend finds on the node, where it has no records, is not what it says as a controller.
type View = (&'static str, VolumeId);

#[derive(Default)]
struct Kept {
    /// With the moment when it was given.
    answers: HashMap<View, (Instant, Answer)>,
    /// How many were left by the last sweep.
    young: usize,
}

impl Said {
    /// The answer, if it is not too old.
    pub(super) fn known(&self, view: &View) -> Option<Answer> {
        self.kept()
            .answers
            .get(view)
            .filter(|(since, _)| since.elapsed() < ANSWER_KEPT)
            .map(|(_, answer)| answer.clone())
    }

    fn keep(&self, view: View, answer: Answer) {
        let mut kept = self.kept();
        let Kept { answers, young } = &mut *kept;
        if answers.len() >= ANSWERS_SWEPT.max(2 * *young) {
            answers.retain(|_, (since, _)| since.elapsed() < ANSWER_KEPT);
            *young = answers.len();
        }
        answers.insert(view, (Instant::now(), answer));
    }

    /// A volume is gone.
    pub(in crate::driver) fn forget(&self, id: &VolumeId) {
        let mut kept = self.kept();
        for rpc in [Rpc::ControllerGetVolumeHealth, Rpc::NodeGetVolumeHealth] {
            kept.answers.remove(&(rpc.service(), id.clone()));
        }
    }

    /// Another backend says it from now on.
    pub(in crate::driver) fn forget_all(&self) {
        *self.kept() = Kept::default();
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Work {
    /// A volume as this call's service sees it.
    pub(super) fn view(&self, id: &VolumeId) -> View {
        (self.call.rpc.service(), id.clone())
    }

    /// What the backend says, now or a little earlier.
    pub(super) async fn health_said(
        &self,
        id: &VolumeId,
        until: Instant,
    ) -> Result<Vec<Health>, Error> {
        let view = self.view(id);
        if let Some(known) = self.driver.health.known(&view) {
            return Ok(known?);
        }
        let backend = self.backend()?;
        let call = self.limited(until);
        let answer = timeout_at(call.deadline, backend.volume_health(&call, id.clone())).await;
        let answer = answer.unwrap_or_else(|_| {
            Err(BackendError::OutOfTime {
                plugin: backend.label().clone(),
                function: "get-volume-health",
                seconds: HEALTH_TIME.as_secs(),
            })
        });
        let answer = answer.map(merged);
        // A volume of that id may come any moment.
        let is_there = !matches!(&answer, Err(error) if error.code() == Code::NotFound);
        if is_there {
            self.driver.health.keep(view, answer.clone());
        }
        Ok(answer?)
    }
}
