//! A request to the API server with a time limit. Over a connection that was lost silently, or with an etcd that hangs, an answer never arrives, and
//! the caller would stop working.

use crate::error::KubernetesError;
use std::time::Duration;
use tokio::time::timeout;

/// Time limit of a request. 10 s: many times what a loaded API server takes, and short beside the pauses of the callers that repeat it.
pub(crate) const REQUEST: Duration = Duration::from_secs(10);

/// The answer; or an error that names the request.
pub(crate) async fn answered<T>(
    what: String,
    request: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, KubernetesError> {
    answered_within(REQUEST, what, request).await
}

/// The same with a shorter limit, for callers that repeat the request sooner.
pub(crate) async fn answered_within<T>(
    limit: Duration,
    what: String,
    request: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, KubernetesError> {
    match timeout(limit, request).await {
        Ok(answer) => answer.map_err(KubernetesError::api(what)),
        Err(_) => Err(KubernetesError::Silent {
            what,
            seconds: limit.as_secs(),
        }),
    }
}
