//! The trace of a call: the client's span is its parent, if the client sent one (W3C Trace Context), and it ends with the code of the answer.
//!
//! If no traces are exported, nothing happens.

use opentelemetry::Context;
use opentelemetry::propagation::{Extractor, TextMapPropagator};
use opentelemetry::trace::{Status, TraceContextExt};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use tonic::Code;
use tonic::metadata::MetadataMap;
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

/// The header without which there is no parent.
const TRACE_PARENT: &str = "traceparent";

/// The headers of a request.
struct Headers<'a>(&'a MetadataMap);

impl Extractor for Headers<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.to_str().ok()
    }

    fn keys(&self) -> Vec<&str> {
        vec![TRACE_PARENT, "tracestate"]
    }
}

/// Makes the client's span the parent of a span that nobody has entered yet. A malformed header has no effect.
pub(crate) fn follow(span: &Span, headers: &MetadataMap) {
    if !headers.contains_key(TRACE_PARENT) {
        return;
    }
    let propagator = TraceContextPropagator::new();
    let client = propagator.extract_with_context(&Context::new(), &Headers(headers));
    if client.span().span_context().is_valid() {
        // Fails if no traces are exported.
        let _ = span.set_parent(client);
    }
}

/// Notes the answer. Which codes are errors of the server: OpenTelemetry's semantic conventions for gRPC.
pub(crate) fn answered(span: &Span, code: Code) {
    span.set_attribute("rpc.grpc.status_code", code as i64);
    let is_error = matches!(
        code,
        Code::Unknown
            | Code::DeadlineExceeded
            | Code::Unimplemented
            | Code::Internal
            | Code::Unavailable
            | Code::DataLoss
    );
    if is_error {
        span.set_status(Status::error(code.description()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use opentelemetry::trace::TracerProvider;
    use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
    use tracing_subscriber::layer::SubscriberExt;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

    fn exported(headers: &[(&'static str, &str)], code: Code) -> SpanData {
        let exporter = InMemorySpanExporter::default();
        let provider = SdkTracerProvider::builder()
            .with_simple_exporter(exporter.clone())
            .build();
        let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
        let subscriber = tracing_subscriber::registry().with(layer);
        tracing::subscriber::with_default(subscriber, || {
            let mut metadata = MetadataMap::new();
            for (name, value) in headers {
                metadata.insert(*name, value.parse().unwrap());
            }
            let span = tracing::error_span!("rpc");
            follow(&span, &metadata);
            answered(&span, code);
        });
        exporter.get_finished_spans().unwrap().remove(0)
    }

    #[test]
    fn a_call_continues_the_trace_of_its_client() {
        let parent = format!("00-{TRACE}-00f067aa0ba902b7-01");
        let state = ("tracestate", "vendor=1");
        let span = exported(&[(TRACE_PARENT, &parent), state], Code::Ok);
        assert_eq!(span.span_context.trace_id().to_string(), TRACE);
        assert_eq!(span.parent_span_id.to_string(), "00f067aa0ba902b7");
        assert_eq!(span.span_context.trace_state().header(), "vendor=1");
    }

    #[test]
    fn a_malformed_parent_begins_a_new_trace() {
        let zero = format!("00-{}-00f067aa0ba902b7-01", "0".repeat(32));
        let no_span = format!("00-{TRACE}-{}-01", "0".repeat(16));
        for parent in ["", "00", "nonsense", &zero, &no_span] {
            let span = exported(&[(TRACE_PARENT, parent)], Code::Ok);
            assert_ne!(span.span_context.trace_id().to_string(), TRACE, "{parent}");
            assert_eq!(span.parent_span_id.to_string(), "0".repeat(16), "{parent}");
        }
    }

    #[test]
    fn codes_of_the_servers_errors_make_an_error_of_the_span() {
        for (code, is_error) in [
            (Code::Ok, false),
            (Code::NotFound, false),
            (Code::Aborted, false),
            (Code::Internal, true),
            (Code::Unavailable, true),
        ] {
            let span = exported(&[], code);
            assert_eq!(
                matches!(span.status, Status::Error { .. }),
                is_error,
                "{code:?}"
            );
            let noted = span.attributes.iter();
            let noted = noted.filter(|it| it.key.as_str() == "rpc.grpc.status_code");
            let noted = noted.map(|it| it.value.to_string());
            assert_eq!(noted.collect::<Vec<_>>(), [(code as i64).to_string()]);
        }
    }
}
