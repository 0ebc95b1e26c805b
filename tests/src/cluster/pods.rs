//! Commands run in a pod, as `kubectl exec` does, to examine what the pod sees.

use futures::TryFutureExt;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::AttachParams;
use tokio::io::{AsyncRead, AsyncReadExt};
use xtask::failure::Failure;

/// The status of a command that succeeded.
const SUCCESS: &str = "Success";

/// Runs a shell script in a pod; returns its output, or its error message when it failed.
pub async fn shell(pods: &Api<Pod>, pod: &str, script: &str) -> Result<String, Failure> {
    let command = ["/bin/sh", "-ec", script];
    let streams = AttachParams::default().stderr(true);
    let mut process = pods
        .exec(pod, command, &streams)
        .map_err(Failure::cannot(format!("run `{script}` in {pod}")))
        .await?;
    let (out, err) = (process.stdout(), process.stderr());
    let status = process.take_status();
    let (out, err) = tokio::join!(all_of(out), all_of(err));
    let status = match status {
        Some(status) => status.await,
        None => None,
    };
    let ended = status.as_ref().and_then(|it| it.status.as_deref());
    if ended == Some(SUCCESS) {
        return out;
    }
    let words = status.and_then(|it| it.message).unwrap_or_default();
    Err(Failure::Unexpected(format!(
        "`{script}` failed in {pod}: {words}: {}",
        err?.trim()
    )))
}

async fn all_of(stream: Option<impl AsyncRead + Unpin>) -> Result<String, Failure> {
    let mut text = String::new();
    if let Some(mut stream) = stream {
        stream
            .read_to_string(&mut text)
            .map_err(Failure::cannot("read what a pod printed"))
            .await?;
    }
    Ok(text)
}
