//! Whether kubelet will see what is mounted here.
//!
//! It knows only that there is a kubelet; which propagation a root has is the mount room's to say.

use crate::readiness::Readiness;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;
use wasmount_core::mounter::Mounter;
use wasmount_kubernetes::registry;

/// Between two looks: a person mends it.
const PAUSE: Duration = Duration::from_secs(10);

/// Whether a kubelet lives here: each makes that directory at its start, and nobody else does.
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
