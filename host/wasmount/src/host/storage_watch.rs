//! Checks for the readiness whether a driver's pools can be used on this node.
//!
//! It asks the driver, which asks each pool, in 2 s.

use crate::readiness::Readiness;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;
use wasmount_core::driver::Driver;

/// Between two looks. 30 s: a pool that hangs blocks a thread for each look until it answers, and threads have a limit.
const PAUSE: Duration = Duration::from_secs(30);

/// Updates the readiness.
pub(super) async fn watch(driver: Arc<Driver>, readiness: Arc<Readiness>) {
    let mut said = None;
    loop {
        let found = match driver.sick_storage().await {
            Ok(sick) if sick.is_empty() => None,
            Ok(sick) => {
                let words = sick.into_iter().map(|it| it.message);
                Some(words.collect::<Vec<_>>().join("; "))
            }
            // The host itself reports a mounter that does not answer, once for all drivers.
            Err(error) => {
                tracing::debug!(driver = %driver.name(), %error, "storage does not answer");
                said.clone()
            }
        };
        readiness.set_storage(driver.name(), found.clone());
        if said != found {
            let driver = driver.name();
            match &found {
                Some(fault) => tracing::warn!(%driver, fault, "storage cannot be used"),
                None => tracing::info!(%driver, "storage recovered"),
            }
            said = found;
        }
        sleep(PAUSE).await;
    }
}
