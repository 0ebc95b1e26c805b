//! `spec.rollout`: the steps and their bounds.

use super::{Checked, duration, from_one, is_subdomain};
use crate::document::raw::{LABELS_MAX, STEPS_MAX};
use crate::document::rollout::{Rollout, RolloutStep, StepHosts};
use crate::document::{InvalidDocument, KeyPath, raw};
use crate::names::is_word;
use std::time::Duration;

/// Longest pause: a week. A change that waits longer is replaced by the next one.
const PAUSE_MAX: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// Longest name of a label without its prefix, and longest value, in bytes (Kubernetes, "Labels and Selectors").
const LABEL_BYTES: usize = 63;

impl TryFrom<raw::Rollout> for Rollout {
    type Error = InvalidDocument;

    /// Checks all of `spec.rollout`.
    fn try_from(rollout: raw::Rollout) -> Checked<Self> {
        let raw::Rollout { steps } = rollout;
        let key = KeyPath::of("spec.rollout.steps");
        key.ensure(
            (1..=STEPS_MAX).contains(&steps.len()),
            "must have 1 to 10 steps",
        )?;
        let mut last_percent = 0;
        let steps = key.each(steps, |key, step| one(key, step, &mut last_percent))?;
        Ok(Self { steps })
    }
}

fn one(key: &KeyPath, step: raw::RolloutStep, last_percent: &mut u8) -> Checked<RolloutStep> {
    let raw::RolloutStep {
        percent,
        selector,
        pause,
    } = step;
    let hosts = match (percent, selector) {
        (Some(percent), None) => {
            let key = key.key("percent");
            let percent: u8 = from_one(&key, percent, 100)?;
            let rising = format!("must be greater than {last_percent}, that of the step before");
            key.ensure(percent > *last_percent, &rising)?;
            *last_percent = percent;
            StepHosts::Percent(percent)
        }
        (None, Some(raw::NodeSelector { match_labels })) => {
            let key = key.key("selector").key("matchLabels");
            key.ensure(
                (1..=LABELS_MAX).contains(&match_labels.len()),
                "must have 1 to 16 labels",
            )?;
            StepHosts::Labels(key.each_value(match_labels, |key, name, value| {
                let is_label = is_label_key(&name) && (value.is_empty() || is_name(&value));
                key.ensure(
                    is_label,
                    "is not a label of Kubernetes, such as `tier: canary`",
                )?;
                Ok((name, value))
            })?)
        }
        _ => return Err(key.invalid("must have one of `percent` and `selector`")),
    };
    let pause = match pause {
        Some(text) => duration(&key.key("pause"), &text, PAUSE_MAX, "168h")?,
        None => Duration::ZERO,
    };
    Ok(RolloutStep { hosts, pause })
}

fn is_label_key(key: &str) -> bool {
    match key.split_once('/') {
        Some((prefix, name)) => is_subdomain(prefix) && is_name(name),
        None => is_name(key),
    }
}

/// A label's value, or its key without prefix.
fn is_name(name: &str) -> bool {
    is_word(name, LABEL_BYTES, "-_.")
}
