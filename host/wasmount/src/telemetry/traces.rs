//! Traces of calls, sent to an OpenTelemetry collector by OTLP over gRPC.
//!
//! Sampling, headers, batches and resource attributes are those of OpenTelemetry's environment variables (`OTEL_TRACES_SAMPLER` and others).

use crate::fault::Fault;
use opentelemetry::KeyValue;
use opentelemetry::trace::{SpanContext, SpanId, SpanKind, TracerProvider};
use opentelemetry_otlp::{SpanExporter as OtlpExporter, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{
    IdGenerator, RandomIdGenerator, SdkTracerProvider, SpanData, SpanEvents, SpanExporter,
    SpanLinks,
};
use std::env;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::runtime::Runtime;
use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, filter_fn};
use tracing_subscriber::registry::LookupSpan;
use wasmount_mounter::{STEPS, Step};

/// How long the last spans may take at the end of the process: a collector that is away must not delay it.
const LAST_SPANS: Duration = Duration::from_secs(2);

/// The span of a call, which is named by its attribute of the same name.
const RPC: &str = "rpc";

/// The address of a collector.
#[derive(Debug, Clone)]
pub(crate) struct Collector(String);

/// The export of traces.
pub(crate) struct Traces {
    provider: SdkTracerProvider,
    /// Drives the connection: the host's own runtime starts later, and may be busy.
    _runtime: Runtime,
}

/// Names the spans of calls as OpenTelemetry does, and logs that the collector is away, once.
#[derive(Debug)]
struct Export {
    otlp: OtlpExporter,
    collector: String,
    is_away: AtomicBool,
}

impl FromStr for Collector {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let host = ["http://", "https://"]
            .iter()
            .find_map(|scheme| text.strip_prefix(scheme));
        let is_host = |host: &str| {
            let host = host.strip_suffix('/').unwrap_or(host);
            !host.is_empty() && !host.contains(['/', '@', '?', '#', ' '])
        };
        match host {
            Some(host) if is_host(host) => Ok(Self(text.to_owned())),
            _ => Err("must be the gRPC address of a collector, such as `http://otel-collector.monitoring:4317`".to_owned()),
        }
    }
}

impl Traces {
    /// Connects with the first spans.
    pub(crate) fn to(collector: &Collector, node_id: &str) -> Result<Self, Fault> {
        let what = "the export of traces cannot be started";
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("traces")
            .enable_all()
            .build()
            .map_err(Fault::failed(what))?;
        let _context = runtime.enter();
        let otlp = OtlpExporter::builder()
            .with_tonic()
            .with_endpoint(&collector.0)
            .build()
            .map_err(Fault::failed(what))?;
        let export = Export {
            otlp,
            collector: collector.0.clone(),
            is_away: AtomicBool::new(false),
        };
        let mut resource = Resource::builder()
            .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
            .with_attribute(KeyValue::new("service.instance.id", node_id.to_owned()));
        if env::var_os("OTEL_SERVICE_NAME").is_none() {
            resource = resource.with_service_name("wasmount");
        }
        let provider = SdkTracerProvider::builder()
            .with_resource(resource.build())
            .with_batch_exporter(export)
            .build();
        Ok(Self {
            provider,
            _runtime: runtime,
        })
    }

    /// What makes spans of the host's own, and its log lines in them. A log level has no effect on it.
    pub(super) fn layer<S>(&self) -> impl Layer<S> + use<S>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        tracing_opentelemetry::layer()
            .with_tracer(self.provider.tracer("wasmount"))
            .with_location(false)
            .with_threads(false)
            .with_target(false)
            .with_filter(filter_fn(is_exported).with_max_level_hint(LevelFilter::DEBUG))
    }
}

impl Drop for Traces {
    /// Sends the last spans.
    fn drop(&mut self) {
        if let Err(error) = self.provider.shutdown_with_timeout(LAST_SPANS) {
            tracing::warn!(%error, "the last traces may be lost");
        }
    }
}

impl SpanExporter for Export {
    async fn export(&self, mut batch: Vec<SpanData>) -> OTelSdkResult {
        for span in batch.iter_mut().filter(|span| span.name == RPC) {
            name_call(span);
        }
        let of_mounter: Vec<_> = batch.iter_mut().flat_map(take_steps).collect();
        batch.extend(of_mounter);
        let spans = batch.len();
        let sent = self.otlp.export(batch).await;
        let was_away = self.is_away.swap(sent.is_err(), Ordering::Relaxed);
        let collector = &self.collector;
        match &sent {
            Err(error) if !was_away => {
                tracing::warn!(collector, spans, %error, "traces are lost until the collector answers");
            }
            Ok(()) if was_away => tracing::info!(collector, "traces are exported again"),
            _ => {}
        }
        sent
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.otlp.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.otlp.set_resource(resource);
    }
}

/// As OpenTelemetry's semantic conventions name a call of a gRPC server.
fn name_call(span: &mut SpanData) {
    let rpc = span.attributes.iter().find(|it| it.key.as_str() == RPC);
    if let Some(rpc) = rpc {
        span.name = rpc.value.to_string().into();
    }
    span.span_kind = SpanKind::Server;
    let system = KeyValue::new("rpc.system", "grpc");
    span.attributes.push(system);
}

/// Makes the spans that a separate mounter told of, in place of the attribute with its steps.
fn take_steps(request: &mut SpanData) -> Vec<SpanData> {
    let mut attributes = request.attributes.iter();
    let Some(at) = attributes.position(|it| it.key.as_str() == STEPS) else {
        return Vec::new();
    };
    let told = request.attributes.swap_remove(at).value;
    let steps: Vec<Step> = serde_json::from_str(&told.as_str()).unwrap_or_default();
    let ids: Vec<SpanId> = steps
        .iter()
        .map(|_| RandomIdGenerator::default().new_span_id())
        .collect();
    let context = &request.span_context;
    let spans = steps.into_iter().zip(&ids).map(|(step, id)| {
        // The request arrived a little after its span began, so the last steps may seem to end after it.
        let start_time = request.end_time.min(request.start_time + step.begin);
        let end_time = step.duration.map(|duration| start_time + duration);
        let attributes = step.attributes.into_iter();
        let parent = step.parent.and_then(|parent| ids.get(parent));
        SpanData {
            span_context: SpanContext::new(
                context.trace_id(),
                *id,
                context.trace_flags(),
                false,
                context.trace_state().clone(),
            ),
            parent_span_id: parent.copied().unwrap_or(context.span_id()),
            parent_span_is_remote: false,
            name: step.name.into(),
            start_time,
            end_time: end_time.map_or(request.end_time, |it| it.min(request.end_time)),
            attributes: attributes
                .map(|(name, value)| KeyValue::new(name, value))
                .collect(),
            events: SpanEvents::default(),
            links: SpanLinks::default(),
            ..request.clone()
        }
    });
    spans.collect()
}

/// Spans of the host, and its log lines of some importance: those of the libraries below would be spans of the export itself.
fn is_exported(metadata: &Metadata<'_>) -> bool {
    let level = if metadata.is_span() {
        Level::DEBUG
    } else {
        Level::INFO
    };
    metadata.target().starts_with(super::OWN) && *metadata.level() <= level
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collector_is_an_address_with_a_scheme() {
        for text in [
            "http://127.0.0.1:4317",
            "http://[::1]:4317",
            "https://otel.example.com",
            "http://otel-collector.monitoring.svc:4317/",
        ] {
            assert_eq!(text.parse::<Collector>().unwrap().0, text);
        }
    }

    #[test]
    fn a_collector_with_another_form_is_rejected() {
        for text in [
            "",
            "otel:4317",
            "grpc://otel:4317",
            "http://",
            "http:///v1/traces",
            "http://otel:4318/v1/traces",
            "http://user:password@otel:4317",
        ] {
            let rejected = text.parse::<Collector>().unwrap_err();
            assert!(rejected.starts_with("must be the gRPC address"), "{text}");
        }
    }
}
