//! When a request is sent again. Pure decisions.

use crate::connector::Response;
use crate::error::SendError;
use http::StatusCode;
use std::time::Duration;

/// Most attempts of one request: with the pauses below, about three seconds for a system that restarts a service.
const ATTEMPTS_MAX: u32 = 4;
/// Pause before the second attempt, at most; it doubles with each attempt.
const FIRST_PAUSE: Duration = Duration::from_millis(400);

/// How long to wait before the next attempt; none: there must be no other one. `attempts` were made; `may_repeat`: executing it twice does no harm;
/// `chance` is between 0 and 1; `left` is what remains of the call's time.
pub(crate) fn pause(
    outcome: &Result<Response, SendError>,
    attempts: u32,
    may_repeat: bool,
    chance: f64,
    left: Duration,
) -> Option<Duration> {
    let (allowed, asked) = match outcome {
        Err(error) if error.is_unreachable() => (true, None),
        Err(SendError::Lost { .. }) => (may_repeat, None),
        Err(_) => (false, None),
        Ok(Response { parts, .. }) => (
            may_repeat && is_passing(parts.status),
            retry_after(&parts.headers),
        ),
    };
    let doubled = FIRST_PAUSE.saturating_mul(1 << attempts.saturating_sub(1).min(8));
    // Between a half and the whole, so that clients that failed together do not return together.
    let own = doubled.mul_f64(0.5 + chance.clamp(0.0, 1.0) / 2.0);
    let pause = asked.map_or(own, |asked| asked.max(own));
    (allowed && attempts < ATTEMPTS_MAX && pause < left).then_some(pause)
}

/// Whether the storage system may have executed an attempt that is made again. Only 429 says that it did not: a gateway answers 502, 503 and 504 also
/// for a system that has the request.
pub(crate) fn may_be_executed(outcome: &Result<Response, SendError>) -> bool {
    match outcome {
        Err(error) => error.sent(),
        Ok(response) => response.parts.status.is_server_error(),
    }
}

/// Whether a status says that the system is busy or restarts (RFC 9110, RFC 6585).
pub(crate) fn is_passing(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT
    )
}

/// The seconds of `Retry-After`. Its other form, a date, would need both clocks to agree.
fn retry_after(headers: &http::HeaderMap) -> Option<Duration> {
    let text = headers.get(http::header::RETRY_AFTER)?.to_str().ok()?;
    text.trim().parse().ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    type Outcome = Result<Response, SendError>;

    fn refused() -> Outcome {
        Err(SendError::Connect {
            host: "a".to_owned(),
            reason: "refused".to_owned(),
        })
    }

    fn lost() -> Outcome {
        Err(SendError::Lost {
            grant: "a".to_owned(),
            reason: "reset".to_owned(),
        })
    }

    fn answered(status: StatusCode, retry_after: Option<&str>) -> Outcome {
        let mut response = http::Response::builder().status(status);
        if let Some(value) = retry_after {
            response = response.header(http::header::RETRY_AFTER, value);
        }
        Ok(Response {
            parts: response.body(()).unwrap().into_parts().0,
            body: bytes::Bytes::new(),
            trailers: http::HeaderMap::new(),
            after_unknown: false,
        })
    }

    fn repeats(outcome: &Outcome, may_repeat: bool) -> bool {
        pause(outcome, 1, may_repeat, 0.5, LONG).is_some()
    }

    #[test]
    fn what_was_not_sent_is_always_sent_again() {
        assert!(repeats(&refused(), false));
        assert!(repeats(&refused(), true));
    }

    #[test]
    fn what_was_sent_is_sent_again_only_if_it_may_be() {
        let busy = answered(StatusCode::SERVICE_UNAVAILABLE, None);
        for outcome in [lost(), busy] {
            assert!(repeats(&outcome, true), "{outcome:?}");
            assert!(!repeats(&outcome, false), "{outcome:?}");
        }
        for status in [
            StatusCode::OK,
            StatusCode::INTERNAL_SERVER_ERROR,
            StatusCode::CONFLICT,
        ] {
            assert!(!repeats(&answered(status, None), true), "{status}");
        }
        let denied = Err(SendError::ReadOnly {
            grant: "a".to_owned(),
        });
        assert!(!repeats(&denied, true));
    }

    #[test]
    fn an_attempt_counts_as_executed_unless_that_is_excluded() {
        for (status, is_unknown) in [
            (StatusCode::INTERNAL_SERVER_ERROR, true),
            (StatusCode::BAD_GATEWAY, true),
            (StatusCode::SERVICE_UNAVAILABLE, true),
            (StatusCode::GATEWAY_TIMEOUT, true),
            (StatusCode::TOO_MANY_REQUESTS, false),
            (StatusCode::CONFLICT, false),
        ] {
            for after in [None, Some("1")] {
                let outcome = answered(status, after);
                assert_eq!(may_be_executed(&outcome), is_unknown, "{status}");
            }
        }
        assert!(may_be_executed(&lost()));
        assert!(!may_be_executed(&refused()));
    }

    #[test]
    fn pauses_grow_and_end() {
        let outcome = refused();
        let nth = |attempts| pause(&outcome, attempts, false, 1.0, LONG);
        let milliseconds = |pause: Option<Duration>| pause.map(|pause| pause.as_millis());
        assert_eq!(milliseconds(nth(1)), Some(400));
        assert_eq!(milliseconds(nth(2)), Some(800));
        assert_eq!(milliseconds(nth(3)), Some(1600));
        assert_eq!(nth(4), None);
        let least = pause(&outcome, 1, false, 0.0, LONG);
        assert_eq!(milliseconds(least), Some(200));
    }

    #[test]
    fn retry_after_is_honoured_within_the_time_of_the_call() {
        let asked = |after| {
            let busy = answered(StatusCode::SERVICE_UNAVAILABLE, Some(after));
            pause(&busy, 1, true, 0.5, LONG)
        };
        assert_eq!(asked("7"), Some(Duration::from_secs(7)));
        assert_eq!(asked("61"), None);
        // The form with a date has no effect.
        let own = Some(Duration::from_millis(300));
        assert_eq!(asked("Wed, 21 Oct 2026 07:28:00 GMT"), own);
    }
}
