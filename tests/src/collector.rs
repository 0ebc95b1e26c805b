//! A collector of traces: OpenTelemetry's own service, which keeps the spans that it receives.

use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::Span;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::time::{Instant, sleep};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Server;
use tonic::{Request, Response, Status};
use wasmount_core::mutex::lock;
use xtask::failure::Failure;

/// Timeout for spans, which the host sends in batches.
const PATIENCE: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A running collector. It ends with the runtime that it was started on.
#[derive(Debug, Clone)]
pub struct Collector {
    address: SocketAddr,
    spans: Spans,
}

/// A received span.
#[derive(Debug, Clone)]
pub struct ReceivedSpan {
    /// Its name.
    pub name: String,
    /// Hexadecimal, as in `traceparent`.
    pub trace: String,
    /// Hexadecimal.
    pub id: String,
    /// Hexadecimal; empty for the first span of a trace.
    pub parent: String,
    /// The number of the kind in OTLP.
    pub kind: i32,
    /// Attributes as text, those of its process included.
    pub attributes: BTreeMap<String, String>,
}

type Spans = Arc<Mutex<Vec<ReceivedSpan>>>;

struct Service(Spans);

#[tonic::async_trait]
impl TraceService for Service {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let mut received = Vec::new();
        for of_process in request.into_inner().resource_spans {
            let of_process_attributes = of_process.resource.unwrap_or_default().attributes;
            let spans = of_process.scope_spans.into_iter().flat_map(|it| it.spans);
            received.extend(spans.map(|span| ReceivedSpan::of(span, &of_process_attributes)));
        }
        lock(&self.0).extend(received);
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

impl Collector {
    /// Listens; port 0 is any.
    pub async fn listen(address: SocketAddr) -> Result<Self, Failure> {
        let failed = || Failure::cannot(format!("collect traces at {address}"));
        let listener = TcpListener::bind(address).await.map_err(failed())?;
        let address = listener.local_addr().map_err(failed())?;
        let spans = Spans::default();
        let service = TraceServiceServer::new(Service(spans.clone()));
        let incoming = TcpListenerStream::new(listener);
        tokio::spawn(
            Server::builder()
                .add_service(service)
                .serve_with_incoming(incoming),
        );
        Ok(Self { address, spans })
    }

    /// As `--otlp-endpoint` names it.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The spans so far.
    pub fn spans(&self) -> Vec<ReceivedSpan> {
        lock(&self.spans).clone()
    }

    /// All spans, as soon as some of this name arrived, with what was sent beside them.
    pub async fn wait_for(&self, name: &str) -> Result<Vec<ReceivedSpan>, Failure> {
        let end = Instant::now() + PATIENCE;
        loop {
            let spans = self.spans();
            if spans.iter().any(|span| span.name == name) {
                return Ok(spans);
            }
            if Instant::now() > end {
                let names: Vec<_> = spans.iter().map(|span| &span.name).collect();
                return Err(Failure::Unexpected(format!("no span {name} in {names:?}")));
            }
            sleep(POLL_INTERVAL).await;
        }
    }
}

impl ReceivedSpan {
    fn of(span: Span, of_process: &[KeyValue]) -> Self {
        let attributes = of_process.iter().chain(&span.attributes);
        Self {
            trace: hex::encode(&span.trace_id),
            id: hex::encode(&span.span_id),
            parent: hex::encode(&span.parent_span_id),
            kind: span.kind,
            attributes: attributes
                .map(|it| (it.key.clone(), text(&it.value)))
                .collect(),
            name: span.name,
        }
    }
}

fn text(value: &Option<AnyValue>) -> String {
    match value.as_ref().and_then(|it| it.value.clone()) {
        Some(Value::StringValue(text)) => text,
        Some(Value::IntValue(number)) => number.to_string(),
        other => format!("{other:?}"),
    }
}
