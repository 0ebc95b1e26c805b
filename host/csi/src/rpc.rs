//! The handler of every RPC: its span, its request id, the client's deadline; parse, work, status.
//!
//! It never inspects a body, and does not keep work alive: `core::driver` runs a call in its own task, so that the work continues when the client
//! disconnects or its deadline passes.

use crate::error::Error;
use crate::measure::{CallMetrics, Measured};
use crate::parse::{self, Parsed};
use crate::status::status;
use crate::trace_context;
use std::future::Future;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};
use tonic::{Request, Response, Status};
use tracing::field::Empty;
use tracing::{Instrument, Span};
use wasmount_core::call::{Incoming, Origin};
use wasmount_core::driver::{Driver, changes};
use wasmount_core::rpc::Rpc;

/// Most time by which the answer precedes the client's deadline. The client's clock started before its request arrived, and a client whose own timer
/// fires first reports CANCELLED instead of DEADLINE_EXCEEDED. 20 ms: the duration of a call and its answer on a busy machine.
const DEADLINE_MARGIN: Duration = Duration::from_millis(20);

/// For a short deadline, the margin is at most one part in this many.
const DEADLINE_MARGIN_PART: u32 = 10;

/// The header with the client's deadline, as the gRPC protocol names it.
const TIMEOUT_HEADER: &str = "grpc-timeout";

/// When a request's headers arrived; the server adds it before the body is read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival(pub(crate) Instant);

/// What all services of one driver share.
#[derive(Clone)]
pub(crate) struct RpcHandler {
    driver: Arc<Driver>,
    metrics: CallMetrics,
    next_request: Arc<AtomicU64>,
}

/// One incoming call.
pub(crate) struct IncomingCall {
    rpc: Rpc,
    request_id: String,
    pub(crate) span: Span,
    /// The client's deadline.
    pub(crate) deadline: Option<Instant>,
    pub(crate) measured: Measured,
}

impl RpcHandler {
    pub(crate) fn new(driver: Arc<Driver>, metrics: CallMetrics) -> Self {
        // The upper half is random enough to distinguish two runs in a log, and its source cannot fail.
        let run = std::hash::RandomState::new().hash_one(0_u8) << 32;
        Self {
            driver,
            metrics,
            next_request: Arc::new(AtomicU64::new(run | 1)),
        }
    }

    pub(crate) fn driver(&self) -> &Arc<Driver> {
        &self.driver
    }

    /// Serves a call with one answer.
    pub(crate) async fn answer<W, P, A, F>(
        &self,
        rpc: Rpc,
        request: Request<W>,
        parse: impl FnOnce(W) -> parse::Result<P>,
        work: impl FnOnce(Arc<Driver>, Incoming, P) -> F,
    ) -> Result<Response<A>, Status>
    where
        F: Future<Output = Result<A, wasmount_core::error::Error>>,
    {
        let call = self.call(rpc, &request);
        let span = call.span.clone();
        async move {
            let (incoming, arguments) = self.open(&call, request, parse)?;
            // Boxed: each of the futures around it has room for two of it, and the server moves them several times.
            let work = Box::pin(work(Arc::clone(&self.driver), incoming, arguments));
            let answer = call.before_deadline(async { Ok(work.await?) }).await;
            let answer = answer.map_err(|error| call.refused(&error))?;
            call.succeeded();
            Ok(Response::new(answer))
        }
        .instrument(span)
        .await
    }

    /// Span, id and deadline of a request.
    pub(crate) fn call<W>(&self, rpc: Rpc, request: &Request<W>) -> IncomingCall {
        let number = self.next_request.fetch_add(1, Ordering::Relaxed);
        let request_id = request_id(number);
        // At error level, so that the span exists whatever the level of its events.
        let span = tracing::error_span!(
            "rpc",
            %rpc,
            driver = %self.driver.name(),
            request_id,
            version = Empty,
            volume = Empty,
            snapshot = Empty,
            group = Empty,
        );
        trace_context::follow(&span, request.metadata());
        IncomingCall {
            rpc,
            request_id,
            span,
            deadline: deadline(request),
            measured: self.metrics.began(self.driver.name(), rpc),
        }
    }

    /// Rejects RPCs that are not served, then invalid requests. Within the call's span.
    pub(crate) fn open<W, P>(
        &self,
        call: &IncomingCall,
        request: Request<W>,
        parse: impl FnOnce(W) -> parse::Result<P>,
    ) -> Result<(Incoming, P), Status> {
        let served = self.driver.serves(call.rpc);
        let parsed = parse(request.into_inner());
        if let Err(error) = served {
            let no_origin = Origin::default();
            let origin = parsed
                .as_ref()
                .map_or(&no_origin, |parsed| &parsed.incoming.origin);
            self.driver.note(call.rpc, &error, origin);
            return Err(call.refused(&error.into()));
        }
        let Parsed {
            mut incoming,
            kind,
            arguments,
        } = parsed.map_err(|error| call.refused(&error))?;
        if let Some(subject) = &incoming.subject {
            call.span.record(kind, subject.as_str());
        }
        incoming.request_id.clone_from(&call.request_id);
        Ok((incoming, arguments))
    }
}

impl IncomingCall {
    /// The result, or the error that the work is still under way if the client's deadline passes first.
    pub(crate) async fn before_deadline<T>(
        &self,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        self.in_time(work).await.unwrap_or_else(|| {
            Err(wasmount_core::error::Error::StillUnderWay { rpc: self.rpc }.into())
        })
    }

    /// The result of the future, unless the client's deadline passes first.
    pub(crate) async fn in_time<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        match self.deadline {
            None => Some(work.await),
            Some(deadline) => timeout_at(deadline, work).await.ok(),
        }
    }

    /// Logs and counts a successful call: at `info` if it may have changed something. Within the call's span.
    pub(crate) fn succeeded(&self) {
        let (code, duration_ms) = (tonic::Code::Ok, self.measured.duration_ms());
        match changes(self.rpc) {
            true => tracing::info!(?code, duration_ms, "call answered"),
            false => tracing::debug!(?code, duration_ms, "call answered"),
        }
        trace_context::answered(&self.span, code);
        self.measured.answered(code);
    }

    /// The status of a failed call, logged and counted. Within the call's span.
    pub(crate) fn refused(&self, error: &Error) -> Status {
        let status = status(error, self.measured.duration_ms());
        trace_context::answered(&self.span, status.code());
        self.measured.answered(status.code());
        status
    }
}

/// The run of the host, and the number of the request in that run.
fn request_id(number: u64) -> String {
    format!("{:08x}-{}", number >> 32, number as u32)
}

fn deadline<W>(request: &Request<W>) -> Option<Instant> {
    let timeout = request
        .metadata()
        .get(TIMEOUT_HEADER)?
        .to_str()
        .ok()
        .and_then(timeout)?;
    let Arrival(arrival) = *request.extensions().get::<Arrival>()?;
    let margin = DEADLINE_MARGIN.min(timeout / DEADLINE_MARGIN_PART);
    arrival.checked_add(timeout.saturating_sub(margin))
}

/// At most eight digits and a unit (gRPC over HTTP/2, "Timeout").
fn timeout(header: &str) -> Option<Duration> {
    let (digits, unit) = header.split_at_checked(header.len().checked_sub(1)?)?;
    if digits.len() > 8 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let count = digits.parse::<u64>().ok()?;
    match unit {
        "H" => Some(Duration::from_secs(count * 3600)),
        "M" => Some(Duration::from_secs(count * 60)),
        "S" => Some(Duration::from_secs(count)),
        "m" => Some(Duration::from_millis(count)),
        "u" => Some(Duration::from_micros(count)),
        "n" => Some(Duration::from_nanos(count)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wasmount_core::names::DriverName;

    #[test]
    fn a_timeout_is_read_in_every_unit_of_the_protocol() {
        let table = [
            ("1H", Duration::from_secs(3600)),
            ("2M", Duration::from_secs(120)),
            ("15S", Duration::from_secs(15)),
            ("99999999m", Duration::from_millis(99_999_999)),
            ("7u", Duration::from_micros(7)),
            ("0n", Duration::ZERO),
        ];
        for (header, expected) in table {
            assert_eq!(timeout(header), Some(expected), "{header}");
        }
    }

    #[test]
    fn a_timeout_that_the_protocol_does_not_know_is_none() {
        for header in [
            "",
            "S",
            "1",
            "1s",
            "-1S",
            "+1S",
            "1.5S",
            "123456789S",
            "1ä",
            "ä",
        ] {
            assert_eq!(timeout(header), None, "{header}");
        }
    }

    fn request(timeout: Option<&str>, arrival: Instant) -> Request<()> {
        let mut request = Request::new(());
        if let Some(timeout) = timeout {
            let metadata = request.metadata_mut();
            metadata.insert(TIMEOUT_HEADER, timeout.parse().unwrap());
        }
        request.extensions_mut().insert(Arrival(arrival));
        request
    }

    #[test]
    fn a_deadline_counts_from_arrival_and_precedes_the_transport() {
        let arrival = Instant::now();
        for (header, in_time) in [("50m", 45), ("2S", 1980)] {
            let in_time = arrival + Duration::from_millis(in_time);
            assert_eq!(deadline(&request(Some(header), arrival)), Some(in_time));
        }
        assert_eq!(deadline(&request(Some("0n"), arrival)), Some(arrival));
        assert_eq!(deadline(&request(Some("soon"), arrival)), None);
        assert_eq!(deadline(&request(None, arrival)), None);
    }

    fn call(deadline: Option<Instant>) -> IncomingCall {
        IncomingCall {
            rpc: Rpc::CreateVolume,
            request_id: String::new(),
            span: Span::none(),
            deadline,
            measured: CallMetrics::default()
                .began(&DriverName::parse("a.b").unwrap(), Rpc::CreateVolume),
        }
    }

    #[tokio::test]
    async fn work_that_outlasts_the_deadline_is_still_under_way() {
        let never = std::future::pending::<Result<(), Error>>();
        let late = call(Some(Instant::now())).before_deadline(never).await;
        let status = status(&late.unwrap_err(), 0.0);
        assert_eq!(status.code(), tonic::Code::DeadlineExceeded);
        assert_eq!(status.message(), "CreateVolume is still under way");
    }

    #[tokio::test]
    async fn work_that_has_ended_is_answered_whatever_the_deadline() {
        for deadline in [None, Some(Instant::now())] {
            let answer = call(deadline).before_deadline(async { Ok(7) }).await;
            assert_eq!(answer.unwrap(), 7);
        }
    }

    #[test]
    fn request_ids_differ() {
        let first = 0xab << 32 | 1;
        assert_eq!(
            [request_id(first), request_id(first + 1)],
            ["000000ab-1", "000000ab-2"]
        );
    }
}
