//! The teardown of a volume. Each of its calls is idempotent, so it works from any state, and continues after a rejected call.

use super::report::Report;
use super::requests;
use crate::clients::Clients;
use std::path::Path;
use std::time::Duration;
use tokio::time::{Instant, sleep};
use tonic::{Code, Response, Status};
use wasmount_csi::wire::csi::v1::Volume;

/// How long a call is repeated while an earlier one is in progress (ABORTED), as kubelet would.
const PATIENCE: Duration = Duration::from_secs(10);

/// Between two attempts.
const AGAIN: Duration = Duration::from_millis(100);

/// Unpublishes, unstages and deletes. Failures are in the report.
pub(super) async fn all(
    clients: &Clients,
    report: &mut Report<'_>,
    volume: &Volume,
    staging: &Path,
    targets: [&Path; 2],
) {
    let Clients {
        controller, node, ..
    } = clients;
    for target in targets {
        let call = patiently(async || {
            let request = requests::unpublish(volume, target);
            node.clone().node_unpublish_volume(request).await
        });
        let words = |_: &_| "unpublished".to_owned();
        let _ = report.rpc("NodeUnpublishVolume", call, words).await;
    }
    let call = patiently(async || {
        let request = requests::unstage(volume, staging);
        node.clone().node_unstage_volume(request).await
    });
    let words = |_: &_| "unstaged".to_owned();
    let _ = report.rpc("NodeUnstageVolume", call, words).await;
    let call = patiently(async || {
        let request = requests::delete(volume);
        controller.clone().delete_volume(request).await
    });
    let words = |_: &_| "deleted".to_owned();
    let _ = report.rpc("DeleteVolume", call, words).await;
}

/// Repeats a call while an earlier one for the same volume is in progress.
async fn patiently<T>(
    call: impl AsyncFn() -> Result<Response<T>, Status>,
) -> Result<Response<T>, Status> {
    let start = Instant::now();
    loop {
        match call().await {
            Err(status) if status.code() == Code::Aborted && start.elapsed() < PATIENCE => {
                sleep(AGAIN).await;
            }
            answer => return answer,
        }
    }
}
