//! Faults of the REST API that an administrator switches on: what they do to each request.

use axum::http::{Method, StatusCode};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The longest delay, in milliseconds: longer than any client waits.
const LONGEST_DELAY: u64 = 600_000;

/// The faults that are on; none by default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(crate) struct Faults {
    /// Only for requests that begin so, such as `POST /api/volumes`.
    on: String,
    /// How much later each request is carried out, in milliseconds.
    delay_milliseconds: u64,
    /// The status that every request is answered with, and not carried out.
    refuse: Option<u16>,
    /// How many of the next requests that change something are carried out, and not answered: their connections are closed.
    lose_answers: u32,
    /// Whether new volumes and snapshots end in the state `error`.
    pub(crate) fail_jobs: bool,
}

/// What happens to one request.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Fate {
    pub(crate) delay: Duration,
    pub(crate) refuse: Option<StatusCode>,
    pub(crate) is_answer_lost: bool,
}

impl Faults {
    /// Why they cannot be switched on.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        let is_refusal = |status: u16| (400..=599).contains(&status);
        if self.refuse.is_some_and(|status| !is_refusal(status)) {
            return Err("`refuse` is a status from 400 to 599");
        }
        if self.delay_milliseconds > LONGEST_DELAY {
            return Err("`delayMilliseconds` is 600000 at most");
        }
        Ok(())
    }

    /// Decides about the next request.
    pub(crate) fn next(&mut self, method: &Method, path: &str) -> Fate {
        if !format!("{method} {path}").starts_with(&self.on) {
            return Fate::default();
        }
        let refuse = self.refuse.and_then(|it| StatusCode::from_u16(it).ok());
        let is_answer_lost = refuse.is_none() && self.lose_answers > 0 && !method.is_safe();
        if is_answer_lost {
            self.lose_answers -= 1;
        }
        Fate {
            delay: Duration::from_millis(self.delay_milliseconds),
            refuse,
            is_answer_lost,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(text: &str) -> Faults {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn a_fault_meets_only_the_requests_that_it_names() {
        let mut faults =
            faults(r#"{ "on": "POST /api/vol", "refuse": 503, "delayMilliseconds": 5 }"#);
        let fate = faults.next(&Method::POST, "/api/volumes");
        assert_eq!(fate.refuse, Some(StatusCode::SERVICE_UNAVAILABLE));
        assert_eq!(fate.delay, Duration::from_millis(5));
        for (method, path) in [
            (Method::GET, "/api/volumes"),
            (Method::POST, "/api/sessions"),
        ] {
            assert_eq!(faults.next(&method, path), Fate::default());
        }
    }

    #[test]
    fn answers_are_lost_as_often_as_asked_and_only_of_changes() {
        let mut faults = faults(r#"{ "loseAnswers": 1 }"#);
        assert!(!faults.next(&Method::GET, "/api/volumes").is_answer_lost);
        assert!(
            faults
                .next(&Method::DELETE, "/api/volumes/1")
                .is_answer_lost
        );
        assert!(
            !faults
                .next(&Method::DELETE, "/api/volumes/1")
                .is_answer_lost
        );
    }

    #[test]
    fn a_fault_out_of_bounds_is_refused() {
        assert!(faults("{}").check().is_ok());
        assert!(faults(r#"{ "refuse": 200 }"#).check().is_err());
        assert!(
            faults(r#"{ "delayMilliseconds": 600001 }"#)
                .check()
                .is_err()
        );
    }
}
