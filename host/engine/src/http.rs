//! Import `wasi:http`: requests to the systems that `grants.network` names. Hosts, connections, credentials and retries are those of the crate
//! `network`; here are the rights of the call, its bounds and the outcome of each request.

use crate::function::{Access, Function};
use crate::limits::memory_limit;
use crate::redact::Redactor;
use crate::requests::{Denial, Kind, Requests};
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Request, Response};
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tracing::Instrument;
use wasmount_core::blame::{Blame, Owner};
use wasmount_core::call::Call;
use wasmount_core::document::Limits;
use wasmount_network::{Endpoints, Scope, SendError, Service};
use wasmtime_wasi_http::{Error, RequestOptions, WasiBody, WasiHttpHooks};

/// What remains of a call's time when the network gives up: the guest can still answer what happened. 250 ms: a guest needs some microseconds.
const ANSWER_TIME: Duration = Duration::from_millis(250);
/// Most bytes of a request's body that wait for the request to be sent, which a guest may do for as many requests as it has handles. 64 KiB: with the
/// default of 1,000 handles they take 64 MB.
const CHUNK_BYTES: usize = 64 << 10;

/// Sends the requests of one call.
#[derive(Clone)]
pub(crate) struct Sender {
    endpoints: Endpoints,
    /// None: the version does not serve yet.
    scope: Option<Arc<Scope>>,
    requests: Requests,
    redactor: Redactor,
    bodies: Bodies,
}

/// The bytes that all bodies of one call may have at a time: as many as its memory, to which the guest copies them.
#[derive(Clone)]
struct Bodies {
    free: Arc<Semaphore>,
    /// Bytes that one host call may carry.
    step: usize,
}

/// The body of an answer, in steps that a host call may carry.
struct Answer {
    body: Bytes,
    trailers: Option<HeaderMap>,
    step: usize,
    _held: Option<OwnedSemaphorePermit>,
}

impl Sender {
    pub(crate) fn new(
        call: &Call,
        function: Function,
        endpoints: &Endpoints,
        limits: &Limits,
        requests: &Requests,
        redactor: &Redactor,
    ) -> Self {
        let scope = (!function.is_before_serving).then(|| scope(call, function.access));
        Self {
            endpoints: endpoints.clone(),
            scope: scope.map(Arc::new),
            requests: requests.clone(),
            redactor: redactor.clone(),
            bodies: Bodies::of(limits),
        }
    }

    #[tracing::instrument(level = "debug", skip_all, name = "host call", fields(function = "http", method = %request.method()))]
    async fn send(
        self,
        request: Request<WasiBody>,
        options: Option<RequestOptions>,
    ) -> Result<Response<WasiBody>, Error> {
        let Some(scope) = &self.scope else {
            self.requests.withhold();
            return Err(Error::ConfigurationError);
        };
        let scope = within(scope, options);
        let (parts, body) = request.into_parts();
        let (body, _held) = self.bodies.collect(body).await?;
        let target = parts.uri.to_string();
        // From here on the call waits for the network, not for the guest.
        let kind = Kind::of(&parts.method, &parts.headers);
        let Some(under_way) = self.requests.begin(kind) else {
            return Err(Error::ConnectionTerminated);
        };
        let request = Request::from_parts(parts, body);
        let answered = self.endpoints.send(&scope, request).await;
        self.redactor.learn(self.endpoints.tokens());
        match answered {
            Ok(response) => {
                under_way.answered(response.parts.status, response.after_unknown);
                let body = self.bodies.answer(response.body, response.trailers)?;
                Ok(Response::from_parts(response.parts, body.boxed_unsync()))
            }
            Err(error) => {
                under_way.failed(error.sent());
                let text = self.redactor.text(&error.to_string());
                tracing::warn!(
                    request_id = scope.request_id,
                    reason = text,
                    "a request of the plugin failed"
                );
                if let Some(blame) = denied(&error, target) {
                    let text = text.clone();
                    self.requests.deny(Denial { text, blame });
                }
                Err(as_guests_see(&error, text))
            }
        }
    }
}

type Sending<T> = Box<dyn Future<Output = Result<T, Error>> + Send>;

impl WasiHttpHooks for Sender {
    /// The name of a host is the grant's.
    fn set_host_header(&mut self) -> bool {
        false
    }

    fn p2_outgoing_body_chunk_size(&mut self) -> usize {
        CHUNK_BYTES
    }

    fn send_request(
        &mut self,
        request: Request<WasiBody>,
        options: Option<RequestOptions>,
        _done: Sending<()>,
    ) -> Sending<(Response<WasiBody>, Sending<()>)> {
        let sender = self.clone();
        let sent = async move {
            let response = sender.send(request, options).await?;
            let done: Sending<()> = Box::new(async { Ok(()) });
            Ok((response, done))
        };
        Box::new(sent.in_current_span())
    }
}

impl Bodies {
    fn of(limits: &Limits) -> Self {
        let bytes = memory_limit(limits).min(Semaphore::MAX_PERMITS);
        Self {
            free: Arc::new(Semaphore::new(bytes)),
            step: limits.host_call_bytes.max(1),
        }
    }

    /// Holds this many bytes; none: the bodies of the call have no room for them.
    fn hold(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let bytes = u32::try_from(bytes).ok()?;
        Arc::clone(&self.free).try_acquire_many_owned(bytes).ok()
    }

    /// The whole body of a request.
    async fn collect(
        &self,
        mut body: WasiBody,
    ) -> Result<(Bytes, Option<OwnedSemaphorePermit>), Error> {
        let (mut whole, mut held) = (BytesMut::new(), None::<OwnedSemaphorePermit>);
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame?.into_data() else {
                let reason = "trailers of a request are not sent: send them as headers";
                return Err(Error::InternalError(Some(reason.to_owned())));
            };
            let size = whole.len().saturating_add(data.len());
            let more = self.hold(data.len());
            let more = more.ok_or(Error::HttpRequestBodySize(u64::try_from(size).ok()))?;
            // One for all, since a guest may send its body byte by byte.
            match &mut held {
                Some(held) => held.merge(more),
                None => held = Some(more),
            }
            whole.extend_from_slice(&data);
        }
        Ok((whole.freeze(), held))
    }

    fn answer(&self, body: Bytes, trailers: HeaderMap) -> Result<Answer, Error> {
        let held = self.hold(body.len());
        if held.is_none() {
            return Err(Error::HttpResponseBodySize(u64::try_from(body.len()).ok()));
        }
        Ok(Answer {
            body,
            trailers: Some(trailers).filter(|trailers| !trailers.is_empty()),
            step: self.step,
            _held: held,
        })
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let step = self.step.min(self.body.len());
        let frame = match step {
            0 => self.trailers.take().map(Frame::trailers),
            _ => Some(Frame::data(self.body.split_to(step))),
        };
        Poll::Ready(frame.map(Ok))
    }
}

/// When the waits of a call end, so that the guest can still answer.
pub(crate) fn last_wait(call: &Call) -> Instant {
    let deadline = call.deadline;
    deadline.checked_sub(ANSWER_TIME).unwrap_or(deadline)
}

/// The rights of a call in service. A controller and a node may run in one process: the RPC tells which of them asks.
fn scope(call: &Call, access: Access) -> Scope {
    Scope {
        service: match call.rpc.service() {
            "Node" => Service::Node,
            _ => Service::Controller,
        },
        may_change: access == Access::ReadWrite,
        deadline: last_wait(call),
        request_id: call.request_id.clone(),
        request_secrets: Arc::clone(&call.secrets),
    }
}

/// The guest may give a request less time than the grant does. The body arrives as a whole, so its first byte is its last one.
fn within(scope: &Scope, options: Option<RequestOptions>) -> Scope {
    let first_byte = options.and_then(|options| options.first_byte_timeout);
    let connect = options.and_then(|options| options.connect_timeout);
    let own = first_byte
        .and_then(|first| Instant::now().checked_add(first + connect.unwrap_or_default()));
    Scope {
        deadline: own.map_or(scope.deadline, |own| own.min(scope.deadline)),
        ..scope.clone()
    }
}

/// Who is to blame if a request is not granted; none: it failed for another reason. `target` is what the guest wrote: authority, path and query.
fn denied(error: &SendError, target: String) -> Option<Blame> {
    match error {
        SendError::NotGranted { .. } => Some(Blame::argument(target)),
        SendError::ReadOnly { .. } => Some(Blame::Of(Owner::Plugin)),
        _ => None,
    }
}

/// The error of `wasi:http` that fits best. Only `internal-error` carries a text.
fn as_guests_see(error: &SendError, text: String) -> Error {
    match error {
        SendError::NotGranted { .. } | SendError::ReadOnly { .. } => Error::HttpRequestDenied,
        SendError::NoHost { .. } | SendError::Login { .. } | SendError::NotRecorded => {
            Error::InternalError(Some(text))
        }
        SendError::Address { .. } => Error::DestinationIpProhibited,
        SendError::Resolve { .. } => Error::DnsError {
            rcode: None,
            info_code: None,
        },
        SendError::Connect { .. } => Error::ConnectionRefused,
        SendError::Tls { .. } => Error::TlsProtocolError,
        SendError::Busy { .. } => Error::ConnectionLimitReached,
        SendError::Timeout { sent: false, .. } => Error::ConnectionTimeout,
        SendError::Timeout { sent: true, .. } => Error::HttpResponseTimeout,
        SendError::Lost { .. } => Error::ConnectionTerminated,
        SendError::RequestTooLarge { limit, .. } => Error::HttpRequestBodySize(Some(*limit)),
        SendError::ResponseTooLarge { limit, .. } => Error::HttpResponseBodySize(Some(*limit)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bodies(memory_bytes: u64, host_call_bytes: usize) -> Bodies {
        Bodies::of(&Limits {
            memory_bytes,
            host_call_bytes,
            ..Limits::default()
        })
    }

    /// Sizes of the data of a body, and the number of its trailers.
    async fn frames(mut body: Answer) -> (Vec<usize>, usize) {
        let (mut sizes, mut trailers) = (Vec::new(), 0);
        while let Some(frame) = body.frame().await {
            match frame.unwrap().into_data() {
                Ok(data) => sizes.push(data.len()),
                Err(frame) => trailers += frame.into_trailers().unwrap().len(),
            }
        }
        (sizes, trailers)
    }

    #[tokio::test]
    async fn an_answer_arrives_in_steps_of_one_host_call() {
        let bodies = bodies(100, 4);
        let trailers: HeaderMap = [("grpc-status".parse().unwrap(), "0".parse().unwrap())]
            .into_iter()
            .collect();
        let answer = bodies.answer(Bytes::from_static(b"123456789"), trailers);
        assert_eq!(frames(answer.unwrap()).await, (vec![4, 4, 1], 1));
        let empty = bodies.answer(Bytes::new(), HeaderMap::new()).unwrap();
        assert_eq!(frames(empty).await, (vec![], 0));
    }

    #[test]
    fn answers_that_a_guest_holds_are_bounded_together() {
        let bodies = bodies(10, 4);
        let answer = |size| bodies.answer(vec![0; size].into(), HeaderMap::new());
        let first = answer(6).unwrap();
        assert!(matches!(
            answer(5),
            Err(Error::HttpResponseBodySize(Some(5)))
        ));
        drop(first);
        assert!(answer(10).is_ok());
    }
}
