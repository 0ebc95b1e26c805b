//! The log of administrators' requests.

use super::Answer;
use std::time::Instant;
use wasmount_control::Peer;
use wasmount_control::messages::{Plugin, Swap};
use wasmount_core::document::without_credentials;

/// Logs who requests a change, its arguments, and how it ends: the log says why a driver serves something else.
pub(super) async fn audited<T>(
    Peer { uid }: Peer,
    operation: &'static str,
    driver: Option<&str>,
    arguments: String,
    work: impl Future<Output = Answer<T>>,
) -> Answer<T> {
    let begin = Instant::now();
    tracing::info!(
        uid,
        operation,
        driver,
        arguments,
        "request of an administrator"
    );
    let answer = work.await;
    let duration_ms = begin.elapsed().as_millis();
    match &answer {
        Ok(_) => tracing::info!(
            uid,
            operation,
            driver,
            duration_ms,
            "request of an administrator is done"
        ),
        Err(refusal) => tracing::warn!(
            uid,
            operation,
            driver,
            duration_ms,
            reason = refusal.message,
            "request of an administrator failed"
        ),
    }
    answer
}

/// The arguments of a swap. Credentials are not shown.
pub(super) fn of_swap(swap: &Swap) -> String {
    let place = match &swap.plugin {
        None => "document".to_owned(),
        Some(Plugin::File(path)) => format!("{path:?}"),
        Some(Plugin::Reference(reference)) => format!("{:?}", without_credentials(reference)),
    };
    let Swap {
        allow_service_change,
        share,
        ..
    } = swap;
    format!("plugin={place} allow_service_change={allow_service_change} share={share:?}")
}
