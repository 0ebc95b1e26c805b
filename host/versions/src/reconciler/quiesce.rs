//! What is waited for before a version is put to use: that no call asks the one before, where records or grants change under it. Nothing but the
//! component is written yet, so it can be dropped at any moment, and calls go on.

use super::candidate::{AttemptOutcome, Needs, NotReady, Prepared, QuiesceReason, Ready};
use crate::disk::Disk;
use crate::refusal::Refusal;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout};
use wasmount_core::driver::{Driver, Held, RunningCall};

/// How long calls may take to end before other grants are put to use. 5 s: most calls end within it, and those that come meanwhile bear it.
const BEFORE_GRANTS: Duration = Duration::from_secs(5);
/// Calls that a refusal names. 5: the longest ones say what hangs.
const NAMED: usize = 5;

/// Keeps the component, and waits.
pub(super) async fn prepare(
    driver: Arc<Driver>,
    disk: Arc<Disk>,
    ready: Box<Ready>,
    needs: Result<Needs, Refusal>,
) -> Result<AttemptOutcome, NotReady> {
    let began = Instant::now();
    let prepared = async {
        let Needs { step, quiet } = needs?;
        if let Some(wasm) = &ready.wasm {
            let digest = &ready.candidate.identity.digest;
            disk.keep(digest, Arc::clone(wasm)).await?;
        }
        let held = match quiet {
            Some(quiet) => Some(quiet.reached(&driver).await?),
            None => None,
        };
        Ok(Prepared { step, held, began })
    };
    match prepared.await {
        Ok(prepared) => Ok(AttemptOutcome::Prepared(ready, Box::new(prepared))),
        Err(refusal) => Err(NotReady {
            refusal,
            candidate: Some(ready.candidate.clone()),
            origin: Some(ready.origin.clone()),
        }),
    }
}

impl QuiesceReason {
    /// They go on in any case: a call that is cut off has done a part of its work, and only its caller could say whether it matters.
    async fn reached(self, driver: &Arc<Driver>) -> Result<Held, Refusal> {
        let held = driver.hold();
        let patience = match self {
            QuiesceReason::Records(drain) => drain,
            QuiesceReason::Grants | QuiesceReason::GrantsOnWayBack => BEFORE_GRANTS,
        };
        if timeout(patience, held.drained()).await.is_ok() {
            return Ok(held);
        }
        let calls = held.running_calls();
        match self {
            QuiesceReason::Records(drain) => Err(Refusal::Migration {
                reason: still_running(&calls, drain),
            }),
            QuiesceReason::Grants => Err(Refusal::Grants {
                reason: would_lose(&calls),
            }),
            QuiesceReason::GrantsOnWayBack => {
                tracing::warn!(
                    driver = %driver.name(),
                    calls = calls.len(),
                    "calls go on while the grants change: they may be refused what was theirs"
                );
                Ok(held)
            }
        }
    }
}

/// For what was waited in vain.
fn still_running(calls: &[RunningCall], waited: Duration) -> String {
    let mut named: Vec<String> = calls
        .iter()
        .take(NAMED)
        .map(|call| format!("{} for {} s", call.rpc.name(), call.since.as_secs()))
        .collect();
    if calls.len() > NAMED {
        named.push(format!("{} more", calls.len() - NAMED));
    }
    format!(
        "{} {} of the running version did not end within {} s (versions.drain), and none may run meanwhile: {}; ask again when they have ended, \
         by limits.time at the latest, or raise versions.drain",
        calls.len(),
        if calls.len() == 1 { "call" } else { "calls" },
        waited.as_secs(),
        named.join(", ")
    )
}

/// The same of grants, each kind of call once and without its time: it is tried again and again, and told once.
fn would_lose(calls: &[RunningCall]) -> String {
    let mut named: Vec<&str> = Vec::new();
    for call in calls {
        let name = call.rpc.name();
        if named.len() < NAMED && !named.contains(&name) {
            named.push(name);
        }
    }
    format!(
        "calls of the running version did not end within {} s, and other grants may take from them what they use: {}; what a document wants is tried \
         again by itself, a swap by hand is to be asked for again, when they have ended, by limits.time at the latest",
        BEFORE_GRANTS.as_secs(),
        named.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use wasmount_core::rpc::Rpc;

    #[test]
    fn hanging_calls_are_named_longest_first_and_bounded() {
        let calls = |count: u64| -> Vec<RunningCall> {
            let call = |since| RunningCall {
                rpc: Rpc::CreateVolume,
                since: Duration::from_secs(since),
            };
            (0..count).map(|number| call(90 - number)).collect()
        };
        let describe = still_running(&calls(1), Duration::from_secs(60));
        assert!(
            describe.starts_with("1 call of the running version did not end within 60 s (versions.drain), and none may run meanwhile: CreateVolume for 90 s; "),
            "{describe}"
        );
        let describe = still_running(&calls(8), Duration::from_secs(60));
        assert!(describe.starts_with("8 calls "), "{describe}");
        assert!(
            describe.contains("CreateVolume for 86 s, 3 more; "),
            "{describe}"
        );
    }

    #[test]
    fn calls_that_block_grants_are_named_by_kind() {
        let call = |rpc, since| RunningCall {
            rpc,
            since: Duration::from_secs(since),
        };
        let describe = |since| {
            would_lose(&[
                call(Rpc::CreateVolume, since),
                call(Rpc::CreateVolume, 6),
                call(Rpc::NodeStageVolume, 5),
            ])
        };
        assert_eq!(describe(7), describe(90));
        assert!(
            describe(7).starts_with("calls of the running version did not end within 5 s, and other grants may take from them what they use: CreateVolume, NodeStageVolume; "),
            "{}",
            describe(7)
        );
    }
}
