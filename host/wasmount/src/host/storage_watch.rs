//! Looks whether a driver's pools can be used on this node, for its readiness.
//!
//! It asks the driver, who asks each pool, in 2 s.

use crate::readiness::Readiness;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;
use wasmount_core::driver::Driver;

/// Between two looks. 30 s: a pool that hangs keeps a thread for each look until it answers, and those have a bound.
const PAUSE: Duration = Duration::from_secs(30);

/// Keeps the readiness.
pub(super) async fn watch(driver: Arc<Driver>, readiness: Arc<Readiness>) {
    let mut said = None;
    loop {
        let found = match driver.sick_storage().await {
            Ok(sick) if sick.is_empty() => None,
            Ok(sick) => {
                let words = sick.into_iter().map(|it| it.message);
                Some(words.collect::<Vec<_>>().join("; "))
            }
            // Of a mounter that cannot be asked the host says so itself, once for all drivers.
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
