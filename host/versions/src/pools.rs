//! Whether the granted pools can be opened.
//!
//! To open a pool is to own it, so it is for the caller to ask only where the calls that change pools are served.

use std::sync::Arc;
use tokio::time::{Instant, timeout_at};
use wasmount_core::document::Grants;
use wasmount_core::mounter::Mounter;
use wasmount_core::names::DriverName;
use wasmount_core::pool::PoolCall;

/// One warning for each pool that cannot be opened, by its key in the backend document.
pub(crate) async fn pools_in_doubt(
    mounter: &Arc<dyn Mounter>,
    driver: &DriverName,
    grants: &Grants,
    deadline: Instant,
) -> Vec<String> {
    let mut warnings = Vec::new();
    for pool in grants.pools.keys() {
        let call = PoolCall::Capacity { pool: pool.clone() };
        let reason = match timeout_at(deadline, mounter.pool(driver.clone(), call)).await {
            Ok(Ok(_)) => continue,
            Ok(Err(error)) => error.to_string(),
            Err(_) => "its file system does not answer".to_owned(),
        };
        warnings.push(format!(
            "spec.grants.pools.{pool}.path: the pool cannot be used: {reason}"
        ));
    }
    warnings
}
