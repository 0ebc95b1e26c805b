//! The progress of a transfer or of a measurement, as a bar on the user's terminal.
//!
//! If standard error is not a terminal, the library draws nothing: bars would fill a log.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::sync::{Arc, Mutex};
use wasmount_artifact::{Progress, Step};
use wasmount_core::mutex::lock;

/// The format: progress, amounts, rate, remaining time.
const FORM: &str = "{bar:30} {bytes}/{total_bytes} {bytes_per_sec} {eta}";
/// That of a measurement, whose unit may be of time or of repetitions.
const PLAIN_FORM: &str = "{bar:30} {percent} % {eta}";
/// Transfers of fewer bytes end before a user could see the bar.
const LEAST_BYTES: u64 = 256 << 10;

/// Draws on standard error, if that is a terminal.
pub(crate) fn progress() -> Arc<Progress> {
    let current: Mutex<Option<ProgressBar>> = Mutex::new(None);
    Arc::new(move |step| {
        let mut current = lock(&current);
        match step {
            Step::Begins(bytes) => {
                if let Some(old) = current.take() {
                    old.finish_and_clear();
                }
                *current = (bytes >= LEAST_BYTES).then(|| drawn(bytes, FORM));
            }
            Step::Moved(bytes) => {
                if let Some(bar) = &*current {
                    bar.inc(bytes);
                    if bar.length().is_some_and(|all| bar.position() >= all) {
                        bar.finish_and_clear();
                    }
                }
            }
        }
    })
}

/// Of so many units.
pub(crate) fn of(units: u64) -> ProgressBar {
    drawn(units, PLAIN_FORM)
}

fn drawn(units: u64, form: &str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(units), ProgressDrawTarget::stderr());
    match ProgressStyle::with_template(form) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_forms_of_bars_are_known() {
        for form in [FORM, PLAIN_FORM] {
            ProgressStyle::with_template(form).unwrap();
        }
    }
}
