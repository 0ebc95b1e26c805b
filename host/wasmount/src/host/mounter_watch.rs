//! Looks after a mounter in a process of its own: whether it answers, whether kubelet will see its mounts, and whether it is still the same.
//! Apart because it goes on as long as the host serves: the other process comes and goes by itself.
//!
//! It knows what a mounter says, not how it is reached.

use crate::fault::chain;
use crate::readiness::Readiness;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{sleep, timeout};
use wasmount_core::driver::Driver;
use wasmount_core::mounter::Mounter;
use wasmount_mounter::SocketMounter;

/// Between two looks. 2 s: what a restarted mounter left half done is mended before kubelet's first retry but one.
const PAUSE: Duration = Duration::from_secs(2);
/// How long an answer may take. It needs no storage: 10 s is a process that is stopped.
const PATIENCE: Duration = Duration::from_secs(10);

/// Keeps the readiness, and recovers each driver's volumes when a mounter answers for the first time.
pub(super) async fn watch(
    mounter: Arc<SocketMounter>,
    drivers: impl Fn() -> Vec<Arc<Driver>>,
    beside_kubelet: bool,
    readiness: Arc<Readiness>,
) {
    let mut said = None;
    // By which life of the mounter each driver's volumes were.
    let mut recovered = BTreeMap::new();
    loop {
        let fault = look(&*mounter, beside_kubelet).await;
        readiness.set_host(fault.clone());
        if said != fault {
            match &fault {
                Some(fault) => tracing::error!(%fault, "volumes cannot be mounted"),
                None => tracing::info!("the mounter answers"),
            }
            said = fault;
        }
        let drivers = drivers();
        recovered.retain(|name, _| drivers.iter().any(|driver| driver.name() == name));
        let life = mounter.life();
        for driver in drivers.iter().filter(|_| said.is_none()) {
            if recovered.get(driver.name()) != Some(&life) && recover(driver).await {
                recovered.insert(driver.name().clone(), life);
            }
        }
        sleep(PAUSE).await;
    }
}

async fn look(mounter: &dyn Mounter, beside_kubelet: bool) -> Option<String> {
    match timeout(PATIENCE, mounter.unshared_roots()).await {
        Ok(Ok(unshared)) if !beside_kubelet || unshared.is_empty() => None,
        Ok(Ok(unshared)) => Some(unshared.join("; ")),
        Ok(Err(error)) => Some(error.to_string()),
        Err(_) => Some(format!(
            "the mounter has not answered for {} s",
            PATIENCE.as_secs()
        )),
    }
}

/// Whether it is known what must be recovered. A journal that cannot be read holds up nobody: each call on such a volume meets the same
/// state, and says so to its client.
pub(super) async fn recover(driver: &Arc<Driver>) -> bool {
    match driver.recover().await {
        Ok(0) => true,
        Ok(volumes) => {
            tracing::info!(driver = %driver.name(), volumes, "recovering");
            true
        }
        Err(error) => {
            let error = chain(&error);
            tracing::error!(driver = %driver.name(), error, "unfinished work of an earlier host is unknown");
            false
        }
    }
}
