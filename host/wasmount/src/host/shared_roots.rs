//! Whether kubelet will see the mounts that this host makes.
//!
//! It knows only that there is a kubelet; the mounter determines the propagation of a root.

use crate::readiness::Readiness;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;
use wasmount_core::mounter::Mounter;
use wasmount_kubernetes::registry;

/// Between two looks. An administrator corrects it by hand.
const PAUSE: Duration = Duration::from_secs(10);

/// Whether a kubelet runs on this node: each kubelet makes that directory at its start, and no other program does.
pub(super) fn beside_kubelet(kubelet_dir: &Path) -> bool {
    registry(kubelet_dir).is_dir()
}

/// Keeps the host unready until every path root is a shared mount.
pub(super) async fn watch(mounter: Arc<dyn Mounter>, readiness: Arc<Readiness>) {
    let mut said = None;
    loop {
        let fault = match mounter.unshared_roots().await {
            Ok(sentences) if sentences.is_empty() => None,
            Ok(sentences) => Some(sentences.join("; ")),
            Err(error) => Some(error.to_string()),
        };
        readiness.set_host(fault.clone());
        match fault {
            None => return,
            Some(fault) => {
                if said.as_ref() != Some(&fault) {
                    tracing::error!(%fault, "mounts of this process would be invisible to kubelet");
                    said = Some(fault);
                }
            }
        }
        sleep(PAUSE).await;
    }
}
