//! The values of one scrape, as a collector of the library's registry.

use super::table::{ALL, Metric};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use std::collections::BTreeMap;
use std::fmt;

/// Values by metric and by the values of its labels, in the order of the table.
#[derive(Debug, Clone, Default)]
pub(super) struct Scrape(BTreeMap<&'static str, BTreeMap<Vec<String>, f64>>);

impl Scrape {
    /// Sets a value.
    pub(super) fn set(&mut self, metric: &'static Metric, labels: &[&str], value: f64) {
        *self.value(metric, labels) = value;
    }

    /// Adds to a value, which is 0 at first: a rate needs a zero to start at.
    pub(super) fn add(&mut self, metric: &'static Metric, labels: &[&str], value: f64) {
        *self.value(metric, labels) += value;
    }

    /// Removes every value whose first label is this driver.
    pub(super) fn remove(&mut self, driver: &str) {
        for values in self.0.values_mut() {
            values.retain(|labels, _| labels.first().is_none_or(|first| first != driver));
        }
    }

    fn value(&mut self, metric: &'static Metric, labels: &[&str]) -> &mut f64 {
        debug_assert_eq!(labels.len(), metric.labels.len(), "{}", metric.name);
        let values = self.0.entry(metric.name).or_default();
        let labels = labels.iter().map(|&label| label.to_owned()).collect();
        values.entry(labels).or_default()
    }
}

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for metric in ALL {
            let Some(values) = self.0.get(metric.name) else {
                continue;
            };
            let (name, unit) = metric.family();
            let (unit, help) = (unit.as_ref(), metric.help);
            let mut family = encoder.encode_descriptor(name, help, unit, metric.kind)?;
            for (labels, value) in values {
                let labels = labels.iter().map(String::as_str);
                let labels: Vec<_> = metric.labels.iter().copied().zip(labels).collect();
                match (metric.kind, labels.as_slice()) {
                    (MetricType::Info, _) => family.encode_info(&labels)?,
                    (kind, []) => sample(&mut family, kind, *value)?,
                    (kind, _) => sample(&mut family.encode_family(&labels)?, kind, *value)?,
                }
            }
        }
        Ok(())
    }
}

/// A whole number is written as one.
fn sample(encoder: &mut MetricEncoder<'_>, kind: MetricType, value: f64) -> fmt::Result {
    let is_whole = value.fract() == 0.0 && value >= 0.0;
    match kind {
        MetricType::Counter if is_whole => {
            encoder.encode_counter::<NoLabelSet, _, u64>(&(value as u64), None)
        }
        MetricType::Counter => encoder.encode_counter::<NoLabelSet, _, u64>(&value, None),
        _ if is_whole => encoder.encode_gauge(&(value as u64)),
        _ => encoder.encode_gauge(&value),
    }
}
