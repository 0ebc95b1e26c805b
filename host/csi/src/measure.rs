//! Metrics of every call: its duration and code, and the number of running calls.
//!
//! This module knows no volume and no error; the server of `/metrics` registers the metrics.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Instant;
use tonic::Code;
use wasmount_core::names::DriverName;
use wasmount_core::rpc::Rpc;

/// Upper bounds in seconds. From 100 us, the duration of the fastest answers, to 60 s, a backend's default time limit (`limits.time`).
const BUCKETS: [f64; 12] = [
    0.0001, 0.0005, 0.001, 0.005, 0.025, 0.1, 0.5, 1.0, 5.0, 15.0, 30.0, 60.0,
];

/// The metrics of all drivers of a host. Clones share them.
#[derive(Debug, Clone)]
pub struct CallMetrics {
    durations: Family<Ended, Histogram, fn() -> Histogram>,
    in_flight: Family<OfDriver, Gauge>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfDriver {
    driver: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Ended {
    driver: String,
    method: &'static str,
    code: String,
}

/// One running call; measured when it is dropped.
#[derive(Debug)]
pub(crate) struct Measured {
    metrics: CallMetrics,
    /// The driver's, which may be removed before the call ends.
    in_flight: Gauge,
    driver: String,
    rpc: Rpc,
    began: Instant,
    code: AtomicU8,
}

impl Default for CallMetrics {
    fn default() -> Self {
        Self {
            durations: Family::new_with_constructor(|| Histogram::new(BUCKETS)),
            in_flight: Family::default(),
        }
    }
}

impl CallMetrics {
    /// Adds the metrics to a registry, with the meanings of both.
    pub fn register(&self, registry: &mut Registry, duration: &str, in_flight: &str) {
        let (name, unit) = ("wasmount_csi_call_duration", Unit::Seconds);
        registry.register_with_unit(name, duration, unit, self.durations.clone());
        let name = "wasmount_csi_calls_in_flight";
        registry.register(name, in_flight, self.in_flight.clone());
    }

    /// Counts a call that arrived.
    pub(crate) fn began(&self, driver: &DriverName, rpc: Rpc) -> Measured {
        let of_driver = OfDriver {
            driver: driver.to_string(),
        };
        let in_flight = self.in_flight.get_or_create(&of_driver).clone();
        in_flight.inc();
        Measured {
            metrics: self.clone(),
            in_flight,
            driver: of_driver.driver,
            rpc,
            began: Instant::now(),
            // Unless it is answered: a client that disconnects receives no answer.
            code: AtomicU8::new(Code::Cancelled as u8),
        }
    }
}

impl Measured {
    /// Sets the code of the answer.
    pub(crate) fn answered(&self, code: Code) {
        self.code.store(code as u8, Ordering::Relaxed);
    }

    /// The time since the call arrived, in milliseconds with one decimal.
    pub(crate) fn duration_ms(&self) -> f64 {
        (self.began.elapsed().as_secs_f64() * 10_000.0).round() / 10.0
    }
}

impl Drop for Measured {
    fn drop(&mut self) {
        self.in_flight.dec();
        let code = Code::from(i32::from(self.code.load(Ordering::Relaxed)));
        let ended = Ended {
            driver: std::mem::take(&mut self.driver),
            method: self.rpc.name(),
            code: name(code),
        };
        let took = self.began.elapsed().as_secs_f64();
        self.metrics.durations.get_or_create(&ended).observe(took);
    }
}

/// The code's name as in grpc-go, and therefore in the metrics of the sidecars.
fn name(code: Code) -> String {
    match code {
        Code::Ok => "OK".to_owned(),
        Code::Cancelled => "Canceled".to_owned(),
        code => format!("{code:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus_client::encoding::text::encode;

    fn shown(metrics: &CallMetrics) -> String {
        let mut registry = Registry::default();
        metrics.register(&mut registry, "durations", "calls");
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        text
    }

    #[test]
    fn a_call_is_in_flight_until_answered_then_counted_by_code() {
        let metrics = CallMetrics::default();
        let driver = DriverName::parse("a.b").unwrap();
        let call = metrics.began(&driver, Rpc::Probe);
        let text = shown(&metrics);
        assert!(
            text.contains("csi_calls_in_flight{driver=\"a.b\"} 1\n"),
            "{text}"
        );
        call.answered(Code::Ok);
        drop(call);
        let text = shown(&metrics);
        assert!(
            text.contains("csi_calls_in_flight{driver=\"a.b\"} 0\n"),
            "{text}"
        );
        let counted =
            "csi_call_duration_seconds_count{driver=\"a.b\",method=\"Probe\",code=\"OK\"} 1\n";
        assert!(text.contains(counted), "{text}");
    }

    #[test]
    fn a_call_whose_client_went_away_is_counted_as_cancelled() {
        let metrics = CallMetrics::default();
        let driver = DriverName::parse("a.b").unwrap();
        drop(metrics.began(&driver, Rpc::CreateVolume));
        let text = shown(&metrics);
        assert!(
            text.contains("method=\"CreateVolume\",code=\"Canceled\"} 1\n"),
            "{text}"
        );
    }
}
