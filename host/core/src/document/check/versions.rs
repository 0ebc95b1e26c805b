//! `spec.versions`: bounds of what an administrator may choose.

use super::{Checked, TIME_MAX, amounts};
use crate::document::{KeyPath, VersionPolicy, raw};
use std::time::Duration;

/// Most versions on disk: 100 of the largest component are 6 GiB.
const KEEP_MAX: u64 = 100;
/// Most faults of a window: what the host remembers one by one.
const FAULTS_MAX: u64 = 1000;
/// Longest window. An hour: a version that was fine for so long is not the cause of what comes then.
const WINDOW_MAX: Duration = Duration::from_secs(60 * 60);

/// How versions follow one another.
pub(super) fn policy(key: &KeyPath, versions: raw::Versions) -> Checked<VersionPolicy> {
    let raw::Versions {
        keep,
        drain,
        rollback: raw::Rollback { faults, window },
    } = versions;
    let mut policy = VersionPolicy::default();
    if let Some(number) = keep {
        policy.keep = usize::try_from(number)
            .ok()
            .filter(|_| (1..=KEEP_MAX).contains(&number))
            .ok_or_else(|| {
                let reason = format!("must be between 1, the serving one alone, and {KEEP_MAX}");
                key.key("keep").invalid(reason)
            })?;
    }
    if let Some(text) = drain {
        policy.drain = duration(&key.key("drain"), &text, TIME_MAX, "24h")?;
    }
    let key = key.key("rollback");
    if let Some(number) = faults {
        policy.faults = u32::try_from(number)
            .ok()
            .filter(|_| number <= FAULTS_MAX)
            .ok_or_else(|| {
                let reason = format!("must be at most {FAULTS_MAX}; 0 never takes a version back");
                key.key("faults").invalid(reason)
            })?;
    }
    if let Some(text) = window {
        policy.window = duration(&key.key("window"), &text, WINDOW_MAX, "1h")?;
    }
    Ok(policy)
}

fn duration(key: &KeyPath, text: &str, most: Duration, most_in_words: &str) -> Checked<Duration> {
    amounts::duration(text)
        .filter(|time| !time.is_zero() && *time <= most)
        .ok_or_else(|| {
            key.invalid(format!(
                "must be a duration such as `60s`, longer than nothing and at most {most_in_words}"
            ))
        })
}
