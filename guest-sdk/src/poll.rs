//! Waiting for jobs of the storage system. Waiting costs no CPU budget; it ends before the call's time does.

use crate::call;
use crate::error::Error;
use crate::imports;
use std::time::Duration;

/// The pause after the first question; each one is twice as long as the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// The longest pause: what a job is late at most.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// What is left for the rest of the call: one more request and the answer.
const RESERVE: Duration = Duration::from_secs(2);

/// Asks again and again, with growing pauses, until there is a result. When the call's time ([`call::remaining`]) comes to its end, answers
/// `aborted`: the client repeats the call, which finds the job that it started before. So a job may take minutes, though a call may not.
///
/// ```
/// use wasmount_guest::{Error, http, poll, testing};
///
/// #[derive(serde::Deserialize)]
/// struct Job {
///     state: String,
/// }
///
/// fn wait_for(id: &str) -> Result<(), Error> {
///     poll::until(&format!("the copy of `{id}`"), || {
///         let job: Job = http::get("array", "/api/jobs").segment(id).load()?;
///         match job.state.as_str() {
///             "done" => Ok(Some(())),
///             "running" => Ok(None),
///             other => Err(Error::internal(format!("the copy ended as `{other}`"))),
///         }
///     })
/// }
///
/// # testing::reset();
/// let mut asked = 0;
/// testing::http(move |_| {
///     asked += 1;
///     http::Response::new(200).with_body(if asked < 3 { r#"{"state":"running"}"# } else { r#"{"state":"done"}"# })
/// });
/// assert_eq!(wait_for("7"), Ok(()));
/// ```
pub fn until<T>(what: &str, mut ask: impl FnMut() -> Result<Option<T>, Error>) -> Result<T, Error> {
    let mut pause = FIRST_PAUSE;
    loop {
        if let Some(result) = ask()? {
            return Ok(result);
        }
        if call::is_cancelled() || call::remaining() < pause + RESERVE {
            return Err(Error::aborted(format!(
                "{what} is still under way: the call is repeated until it is done"
            )));
        }
        imports::clock::sleep(pause);
        pause = LONGEST_PAUSE.min(pause * 2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;
    use crate::testing;

    #[test]
    fn a_result_ends_the_wait() {
        testing::reset();
        let mut asked = 0;
        let result = until("the job", || {
            asked += 1;
            Ok((asked == 3).then_some("done"))
        });
        assert_eq!(result, Ok("done"));
        let waited = Duration::from_secs(60) - call::remaining();
        assert_eq!(waited, FIRST_PAUSE + FIRST_PAUSE * 2);
    }

    #[test]
    fn a_long_job_is_aborted_within_the_budget() {
        testing::reset();
        let mut asked = 0;
        let result: Result<(), _> = until("the job", || {
            asked += 1;
            Ok(None)
        });
        let error = result.unwrap_err();
        assert_eq!(error.code, Code::Aborted);
        assert!(error.message.contains("the job"), "{}", error.message);
        let left = call::remaining();
        assert!(
            left >= RESERVE && left < RESERVE + LONGEST_PAUSE,
            "{left:?}"
        );
        // 0.1 + 0.2 + .. + 3.2 s, and then every 5 s.
        assert_eq!(asked, 17);
    }

    #[test]
    fn an_error_ends_the_wait() {
        testing::reset();
        let failed = until::<()>("the job", || Err(Error::data_loss("broken")));
        assert_eq!(failed.map_err(|error| error.code), Err(Code::DataLoss));
    }

    #[test]
    fn nothing_is_waited_for_when_the_time_is_spent() {
        testing::reset();
        testing::set_remaining(Duration::ZERO);
        let late: Result<(), _> = until("the job", || Ok(None));
        assert_eq!(late.map_err(|error| error.code), Err(Code::Aborted));
        assert_eq!(call::remaining(), Duration::ZERO);
    }
}
