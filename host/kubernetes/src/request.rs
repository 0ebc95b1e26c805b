//! Requests to the API server: their time limit and their parameters. Over a connection that was lost silently, or with an etcd that hangs, an answer
//! never arrives, and the caller would stop working.

use crate::error::KubernetesError;
use kube::api::{ApiResource, GroupVersionKind, PostParams};
use std::time::Duration;
use tokio::time::timeout;
use wasmount_core::document::raw::API_VERSION;

/// Time limit of a request. 10 s: many times what a loaded API server takes, and short beside the pauses of the callers that repeat it.
const REQUEST: Duration = Duration::from_secs(10);

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
        Ok(answer) => answer.map_err(|source| KubernetesError::Api {
            what,
            source: Box::new(source),
        }),
        Err(_) => Err(KubernetesError::Silent {
            what,
            seconds: limit.as_secs(),
        }),
    }
}

/// Parameters of a creation by this field manager.
pub(crate) fn create_as(manager: &str) -> PostParams {
    PostParams {
        field_manager: Some(manager.to_owned()),
        ..PostParams::default()
    }
}

/// A kind of this project.
pub(crate) fn resource_of(kind: &str, plural: &str) -> ApiResource {
    let (group, version) = API_VERSION.split_once('/').unwrap_or_default();
    let kind = GroupVersionKind::gvk(group, version, kind);
    ApiResource::from_gvk_with_plural(&kind, plural)
}
