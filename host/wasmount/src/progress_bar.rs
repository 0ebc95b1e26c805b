//! The progress of a transfer, as a bar on the user's terminal.
//!
//! If standard error is not a terminal, nothing is drawn: bars would fill a log.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{self, IsTerminal};
use std::sync::{Arc, Mutex};
use wasmount_artifact::{Progress, Step, silent};
use wasmount_core::mutex::lock;

/// The format: progress, amounts, rate, remaining time.
const FORM: &str = "{bar:30} {bytes}/{total_bytes} {bytes_per_sec} {eta}";
/// Transfers of fewer bytes end before a user could see the bar.
const LEAST_BYTES: u64 = 256 << 10;

/// Draws on standard error, if that is a terminal.
pub(crate) fn progress() -> Arc<Progress> {
    if !io::stderr().is_terminal() {
        return Arc::new(silent);
    }
    let current: Mutex<Option<ProgressBar>> = Mutex::new(None);
    Arc::new(move |step| {
        let mut current = lock(&current);
        match step {
            Step::Begins(bytes) => {
                if let Some(old) = current.take() {
                    old.finish_and_clear();
                }
                *current = (bytes >= LEAST_BYTES).then(|| bar(bytes));
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

fn bar(bytes: u64) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(bytes), ProgressDrawTarget::stderr());
    match ProgressStyle::with_template(FORM) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_of_the_bar_is_one_that_is_known() {
        ProgressStyle::with_template(FORM).unwrap();
    }
}
