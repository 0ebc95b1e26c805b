//! Import `call`: the call at hand, and the settings of the backend.

use crate::bindings::imported::call::{Host, Level};
use crate::bindings::types::Attributes;
use crate::convert;
use crate::invocation::Invocation;
use tokio::time::Instant;

impl Host for Invocation {
    fn remaining_ms(&mut self) -> wasmtime::Result<u64> {
        let left = self.call.deadline.saturating_duration_since(Instant::now());
        Ok(u64::try_from(left.as_millis()).unwrap_or(u64::MAX))
    }

    fn is_cancelled(&mut self) -> wasmtime::Result<bool> {
        Ok(self.call.cancelled.is_cancelled() || Instant::now() >= self.call.deadline)
    }

    fn request_id(&mut self) -> wasmtime::Result<String> {
        Ok(self.call.request_id.clone())
    }

    fn node_name(&mut self) -> wasmtime::Result<Option<String>> {
        Ok(self.parts.node_name.clone())
    }

    fn settings(&mut self) -> wasmtime::Result<Attributes> {
        Ok(convert::attributes_to_guest(&self.parts.settings))
    }

    fn log(&mut self, level: Level, message: String, fields: Attributes) -> wasmtime::Result<()> {
        self.log.message(level_of(level), &message, &fields);
        Ok(())
    }
}

fn level_of(level: Level) -> tracing::Level {
    match level {
        Level::Trace => tracing::Level::TRACE,
        Level::Debug => tracing::Level::DEBUG,
        Level::Info => tracing::Level::INFO,
        Level::Warn => tracing::Level::WARN,
        Level::Error => tracing::Level::ERROR,
    }
}
