//! One question to the API server, with an end. Behind a connection that is lost without a word, or an etcd that hangs, an answer never comes, and
//! whoever waits for it looks after nothing else.

use crate::error::KubernetesError;
use std::time::Duration;
use tokio::time::timeout;

/// How long one may take. 10 s: many times what a loaded API server takes, and short beside the pauses of all who ask again.
pub(crate) const REQUEST: Duration = Duration::from_secs(10);

/// The answer; or what was asked, and that it failed.
pub(crate) async fn answered<T>(
    what: String,
    request: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, KubernetesError> {
    answered_within(REQUEST, what, request).await
}

/// The same for whoever asks again sooner.
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
