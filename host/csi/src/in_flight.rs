//! Which calls are still to be answered, counted from their headers to the last byte of their answer.

use http_body_util::BodyExt;
use std::task::{Context, Poll};
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;
use tonic::body::Body;
use tonic::codegen::http::{Request, Response};
use tonic::codegen::{BoxFuture, Service};

/// A service whose calls are counted.
#[derive(Debug, Clone)]
pub(crate) struct InFlight<S> {
    inner: S,
    calls: TaskTracker,
}

impl<S> InFlight<S> {
    /// Counts the calls of `inner` in `calls`.
    pub(crate) fn new(inner: S, calls: TaskTracker) -> Self {
        Self { inner, calls }
    }
}

impl<S, B> Service<Request<B>> for InFlight<S>
where
    S: Service<Request<B>, Response = Response<Body>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<S::Response, S::Error>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let token = self.calls.token();
        let answer = self.inner.call(request);
        Box::pin(async move { Ok(answer.await?.map(|body| counted(body, token))) })
    }
}

/// The body, which holds the token for as long as it is being sent.
fn counted(body: Body, token: TaskTrackerToken) -> Body {
    Body::new(body.map_frame(move |frame| {
        let _in_flight = &token;
        frame
    }))
}
