//! The backend's answers about the health of volumes, and how long they are cached.

use super::HEALTH_TIME;
use crate::backend::BackendError;
use crate::code::Code;
use crate::driver::work::Work;
use crate::error::Error;
use crate::health::{Health, merged};
use crate::mutex::lock;
use crate::names::VolumeId;
use crate::rpc::Rpc;
use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// How long an answer is cached. 30 s: kubelet and health-monitor ask once a minute.
const ANSWER_KEPT: Duration = Duration::from_secs(30);
/// Most bytes of all cached answers. 4 MiB: a thousand volumes with a finding of ordinary length take a few hundred kB. Above the limit all
/// answers are dropped: they are requested again.
const ANSWERS_BYTES: usize = 4 << 20;

/// One answer, including errors: a backend that hangs or traps is not queried again at once.
type Answer = Result<Vec<Health>, BackendError>;

/// The last answer about each volume, in each service.
#[derive(Default)]
pub(in crate::driver) struct HealthAnswers(Mutex<Cache>);

/// A volume as one service sees it: a backend's findings on the node, where it has no records, differ from those as a controller.
type View = (&'static str, VolumeId);

#[derive(Default)]
struct Cache {
    /// Each answer with its time.
    answers: HashMap<View, (Instant, Answer)>,
    /// An estimate of the size of all answers.
    bytes: usize,
}

impl Cache {
    fn forget(&mut self, view: &View) {
        if let Some((_, answer)) = self.answers.remove(view) {
            self.bytes -= bytes_of(view, &answer);
        }
    }
}

fn bytes_of((_, id): &View, answer: &Answer) -> usize {
    let content = match answer {
        Ok(findings) => findings
            .iter()
            .map(|finding| {
                let Health {
                    status: _,
                    reason,
                    message,
                } = finding;
                size_of::<Health>() + reason.len() + message.len()
            })
            .sum(),
        Err(error) => error.to_string().len(),
    };
    size_of::<(View, (Instant, Answer))>() + id.as_str().len() + content
}

impl HealthAnswers {
    /// The cached answer, if it has not expired.
    pub(super) fn known(&self, view: &View) -> Option<Answer> {
        lock(&self.0)
            .answers
            .get(view)
            .filter(|(since, _)| since.elapsed() < ANSWER_KEPT)
            .map(|(_, answer)| answer.clone())
    }

    fn keep(&self, view: View, answer: Answer) {
        let mut cache = lock(&self.0);
        cache.forget(&view);
        let bytes = bytes_of(&view, &answer);
        if cache.bytes + bytes > ANSWERS_BYTES {
            *cache = Cache::default();
        }
        cache.bytes += bytes;
        cache.answers.insert(view, (Instant::now(), answer));
    }

    /// Drops the answers about a deleted volume.
    pub(in crate::driver) fn forget(&self, id: &VolumeId) {
        let mut cache = lock(&self.0);
        for rpc in [Rpc::ControllerGetVolumeHealth, Rpc::NodeGetVolumeHealth] {
            cache.forget(&(rpc.service(), id.clone()));
        }
    }

    /// Drops all answers, since another backend gives them from now on.
    pub(in crate::driver) fn forget_all(&self) {
        *lock(&self.0) = Cache::default();
    }
}

impl Work {
    /// A volume as this call's service sees it.
    pub(super) fn view(&self, id: &VolumeId) -> View {
        (self.call.rpc.service(), id.clone())
    }

    /// The backend's answer, current or cached.
    pub(super) async fn backend_health(
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
        if let Some(kept) = kept(&answer) {
            self.driver.health.keep(view, kept);
        }
        Ok(answer?)
    }
}

/// What of an answer is cached; none: it may be another one at any moment, or is about its call and not about the volume. A fault counts once, so it
/// is kept as an answer.
fn kept(answer: &Answer) -> Option<Answer> {
    match answer {
        Ok(findings) => Some(Ok(findings.clone())),
        Err(error) if error.code() == Code::NotFound => None,
        Err(
            BackendError::Cancelled | BackendError::Busy { .. } | BackendError::MemoryBusy { .. },
        ) => None,
        Err(error) => Some(Err(BackendError::Answered {
            code: error.code(),
            message: error.to_string(),
        })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::health::HealthStatus;

    fn view(number: usize) -> View {
        let id = VolumeId::parse("volume_id", format!("v{number}")).unwrap();
        (Rpc::NodeGetVolumeHealth.service(), id)
    }

    fn of_bytes(bytes: usize) -> Answer {
        Ok(vec![Health {
            status: HealthStatus::Degraded,
            reason: "Slow".to_owned(),
            message: "m".repeat(bytes),
        }])
    }

    #[tokio::test(start_paused = true)]
    async fn kept_answers_have_a_bound_in_bytes() {
        let answers = HealthAnswers::default();
        for number in 0..100 {
            answers.keep(view(number), of_bytes(1 << 17));
            assert!(answers.known(&view(number)).is_some(), "{number}");
            assert!(lock(&answers.0).bytes <= ANSWERS_BYTES, "{number}");
        }
        // The new answer about the same volume replaces the old one.
        for _ in 0..100 {
            answers.keep(view(0), of_bytes(1000));
        }
        for number in 0..100 {
            lock(&answers.0).forget(&view(number));
        }
        assert_eq!(lock(&answers.0).bytes, 0);
    }

    #[test]
    fn a_fault_is_kept_as_an_answer() {
        let fault = BackendError::Trapped {
            plugin: crate::backend::PluginLabel {
                name: "p".to_owned(),
                version: "1".to_owned(),
                digest: "d".to_owned(),
            },
            function: "get-volume-health",
            reason: "r".to_owned(),
        };
        let (code, message) = (fault.code(), fault.to_string());
        let kept = kept(&Err(fault)).unwrap().unwrap_err();
        assert!(matches!(kept, BackendError::Answered { .. }), "{kept:?}");
        assert_eq!((kept.code(), kept.to_string()), (code, message));
    }

    #[test]
    fn an_error_of_one_call_is_not_kept() {
        let not_found = BackendError::Answered {
            code: Code::NotFound,
            message: String::new(),
        };
        let busy = BackendError::Busy { limit: 1 };
        let memory = BackendError::MemoryBusy { bytes: 1 };
        for error in [BackendError::Cancelled, busy, memory, not_found] {
            assert!(kept(&Err(error)).is_none());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn answers_of_ordinary_length_are_all_kept() {
        let answers = HealthAnswers::default();
        for number in 0..5000 {
            answers.keep(view(number), of_bytes(200));
        }
        assert!((0..5000).all(|number| answers.known(&view(number)).is_some()));
    }
}
