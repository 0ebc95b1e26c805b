//! Log lines as JSON objects, whose keys are the fields of the line and those that all lines of a call share.

use k8s_openapi::jiff::Timestamp;
use serde_json::{Map, Value};
use std::fmt;
use tracing::{Event, Subscriber};
use tracing_serde::fields::AsMap;
use tracing_subscriber::fmt::format::{JsonFields, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormattedFields};
use tracing_subscriber::registry::LookupSpan;

/// One object a line. A field of the line is preferred to one of its spans, and an inner span's to an outer one's.
#[derive(Debug)]
pub(super) struct JsonLine;

impl<S> FormatEvent<S, JsonFields> for JsonLine
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, JsonFields>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut line = Map::new();
        let scope = context.event_scope().into_iter();
        for span in scope.flat_map(|scope| scope.from_root()) {
            if let Some(fields) = span.extensions().get::<FormattedFields<JsonFields>>() {
                line.extend(object(serde_json::from_str(&fields.fields)));
            }
        }
        line.extend(object(serde_json::to_value(event.field_map())));
        let metadata = event.metadata();
        for (key, value) in [
            ("timestamp", format!("{:.6}", Timestamp::now())),
            ("level", metadata.level().to_string()),
            ("target", metadata.target().to_owned()),
        ] {
            line.insert(key.to_owned(), Value::String(value));
        }
        writeln!(writer, "{}", Value::Object(line))
    }
}

/// The keys of an object; none of anything else.
fn object(value: serde_json::Result<Value>) -> Map<String, Value> {
    match value {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::io;
    use std::sync::{Arc, Mutex};
    use tracing::subscriber::with_default;
    use tracing_subscriber::layer::SubscriberExt;
    use wasmount_core::mutex::lock;

    /// What was written.
    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            lock(&self.0).extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn lines(log: impl FnOnce()) -> Vec<Value> {
        let written = Written::default();
        let writer = written.clone();
        let layer = super::super::json_lines(move || writer.clone());
        with_default(tracing_subscriber::registry().with(layer), log);
        let text = String::from_utf8(lock(&written.0).clone()).unwrap();
        let lines = text.lines().map(serde_json::from_str);
        lines.collect::<Result<_, _>>().unwrap()
    }

    #[test]
    fn fields_of_a_line_and_of_its_call_are_keys_of_the_object() {
        let begun = Timestamp::now();
        let written = lines(|| {
            let call = tracing::error_span!("rpc", rpc = "CreateVolume", volume = "a\n\"b");
            call.in_scope(|| {
                let inner = tracing::error_span!("guest call", function = "create-volume");
                inner.in_scope(|| tracing::info!(code = "Ok", duration_ms = 1.5, "call answered"));
            });
        });
        let [Value::Object(line)] = &written[..] else {
            panic!("{written:?}");
        };
        let mut line = line.clone();
        let timestamp = line.remove("timestamp").unwrap();
        let timestamp: Timestamp = timestamp.as_str().unwrap().parse().unwrap();
        assert!(timestamp.as_second() >= begun.as_second());
        let expected = json!({
            "level": "INFO", "target": module_path!(), "message": "call answered",
            "rpc": "CreateVolume", "volume": "a\n\"b", "function": "create-volume", "code": "Ok", "duration_ms": 1.5,
        });
        assert_eq!(Value::Object(line), expected);
    }

    #[test]
    fn no_field_takes_the_place_of_level_or_target() {
        let written = lines(|| {
            let call = tracing::error_span!("rpc", level = "x", driver = "outer");
            call.in_scope(|| tracing::warn!(target: "wasmount::t", driver = "line", "m"));
        });
        let line = &written[0];
        assert_eq!(
            (&line["level"], &line["target"], &line["driver"]),
            (&json!("WARN"), &json!("wasmount::t"), &json!("line"))
        );
    }
}
