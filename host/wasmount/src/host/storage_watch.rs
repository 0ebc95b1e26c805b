//! Keeps the readiness up to date: whether the mounter answers, kubelet will see its mounts, and each driver's pools can be used.
//!
//! It uses the answers of mounter and driver, and does not know where the mounter is.

use crate::readiness::{AWAITING_MOUNTER, Readiness};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};
use wasmount_core::driver::Driver;
use wasmount_core::mounter::Mounter;
use wasmount_core::text::chain;
use wasmount_kubernetes::registry;
use wasmount_mounter::SocketMounter;

/// Between two checks of a mounter in another process. 2 s: work that a restarted mounter left unfinished is recovered before kubelet's second
/// retry.
const MOUNTER_PAUSE: Duration = Duration::from_secs(2);
/// Between two checks of the path roots of this process. An administrator corrects them by hand.
const ROOTS_PAUSE: Duration = Duration::from_secs(10);
/// Between two checks of pools. 30 s: a pool that hangs blocks a thread for each check until it answers, and threads have a limit.
const POOLS_PAUSE: Duration = Duration::from_secs(30);
/// How long an answer may take. It needs no storage: 10 s without an answer means a stopped process.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long after the host's own start a mounter may need for its first answer. 60 s: the containers of a pod start one after the other,
/// and this one may have to wait until an earlier mounter has released the journal.
const STARTING: Duration = Duration::from_secs(60);

/// Why volumes cannot be mounted.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Fault {
    /// The mounter does not answer.
    Silent(String),
    /// A path root is not a shared mount, as the mounter reports.
    Unshared(String),
}

/// Whether a kubelet runs on this node: each kubelet makes that directory at its start, and no other program does.
pub(super) fn beside_kubelet(kubelet_dir: &Path) -> bool {
    registry(kubelet_dir).is_dir()
}

/// Keeps the host unready until every path root of the mounter in this process is a shared mount.
pub(super) async fn watch_roots(mounter: Arc<dyn Mounter>, readiness: Arc<Readiness>) {
    let mut last_reported = None;
    loop {
        let fault = check(&*mounter, true).await;
        let fault = fault.map(|fault| reason_of(fault, false));
        readiness.set_host(fault.clone());
        let Some(reason) = &fault else { return };
        if last_reported != fault {
            tracing::error!(
                fault = reason,
                "mounts of this process would be invisible to kubelet"
            );
        }
        last_reported = fault;
        sleep(ROOTS_PAUSE).await;
    }
}

/// Watches a mounter in another process, of which `client` knows each run, and recovers each driver's volumes when a mounter answers for the first time.
pub(super) async fn watch_mounter(
    mounter: Arc<dyn Mounter>,
    client: Arc<SocketMounter>,
    drivers: impl Fn() -> Vec<Arc<Driver>>,
    beside_kubelet: bool,
    readiness: Arc<Readiness>,
) {
    let mut last_reported = None;
    let mut may_start_until = Some(Instant::now() + STARTING);
    // The boot id of the mounter with which each driver's volumes were recovered.
    let mut recovered = BTreeMap::new();
    loop {
        let fault = check(&*mounter, beside_kubelet).await;
        if !matches!(fault, Some(Fault::Silent(_))) {
            may_start_until = None;
        }
        let starts = may_start_until.is_some_and(|until| Instant::now() < until);
        let fault = fault.map(|fault| reason_of(fault, starts));
        readiness.set_host(fault.clone());
        if last_reported != fault {
            match fault.as_deref() {
                Some(AWAITING_MOUNTER) => tracing::info!("waiting for the mounter"),
                Some(fault) => tracing::error!(fault, "mounts are unavailable"),
                None => tracing::info!("mounter connected"),
            }
            last_reported = fault;
        }
        let drivers = drivers();
        recovered.retain(|name, _| drivers.iter().any(|driver| driver.name() == name));
        let boot_id = client.boot_id();
        for driver in drivers.iter().filter(|_| last_reported.is_none()) {
            if recovered.get(driver.name()) != Some(&boot_id) && recover(driver).await {
                recovered.insert(driver.name().clone(), boot_id);
            }
        }
        sleep(MOUNTER_PAUSE).await;
    }
}

/// The reason for the readiness. A mounter that was started with the host is not reported as a failure yet.
fn reason_of(fault: Fault, starts: bool) -> String {
    match fault {
        Fault::Silent(_) if starts => AWAITING_MOUNTER.to_owned(),
        Fault::Silent(reason) | Fault::Unshared(reason) => reason,
    }
}

async fn check(mounter: &dyn Mounter, beside_kubelet: bool) -> Option<Fault> {
    let status = timeout(TIMEOUT, mounter.status());
    let status = status.await.map(|it| it.map(|it| it.unshared_roots));
    match status {
        Ok(Ok(unshared)) if !beside_kubelet || unshared.is_empty() => None,
        Ok(Ok(unshared)) => Some(Fault::Unshared(unshared.join("; "))),
        Ok(Err(error)) => Some(Fault::Silent(error.to_string())),
        Err(_) => Some(Fault::Silent(format!(
            "the mounter has not answered for {} s",
            TIMEOUT.as_secs()
        ))),
    }
}

/// Whether it is known what must be recovered. A journal that cannot be read delays no other call: each call on such a volume meets the same
/// state, and reports it to its client.
pub(super) async fn recover(driver: &Arc<Driver>) -> bool {
    match driver.recover().await {
        Ok(0) => true,
        Ok(volumes) => {
            tracing::info!(driver = %driver.name(), volumes, "recovering");
            true
        }
        Err(error) => {
            let error = chain(&error);
            tracing::error!(driver = %driver.name(), error, "unfinished work of an earlier host cannot be read");
            false
        }
    }
}

/// Watches whether the pools of a driver can be used. The driver checks each pool, within 2 s.
pub(super) async fn watch_pools(driver: Arc<Driver>, readiness: Arc<Readiness>) {
    let mut last_reported = None;
    loop {
        let (storage, volumes) = tokio::join!(driver.storage(), driver.volumes_in_use());
        let mut pools = BTreeMap::new();
        let found = match storage {
            Ok(storage) => {
                pools = storage.pools;
                let messages = storage.sick.into_iter().map(|it| it.message);
                let all: Vec<_> = messages.collect();
                (!all.is_empty()).then(|| all.join("; "))
            }
            // The host itself reports a mounter that does not answer, once for all drivers.
            Err(error) => {
                tracing::debug!(driver = %driver.name(), %error, "storage does not answer");
                last_reported.clone()
            }
        };
        readiness.change(driver.name(), |it| {
            it.storage = found.clone();
            it.pools = pools;
            it.volumes = volumes.ok();
        });
        if last_reported != found {
            let driver = driver.name();
            match &found {
                Some(fault) => tracing::warn!(%driver, fault, "storage cannot be used"),
                None => tracing::info!(%driver, "storage recovered"),
            }
            last_reported = found;
        }
        sleep(POOLS_PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mounter_may_start_a_little_later_and_not_be_unshared() {
        let silent = || Fault::Silent("no such socket".to_owned());
        assert_eq!(reason_of(silent(), true), AWAITING_MOUNTER);
        assert_eq!(reason_of(silent(), false), "no such socket");
        let unshared = Fault::Unshared("/k is not shared".to_owned());
        assert_eq!(reason_of(unshared, true), "/k is not shared");
    }
}
