//! One object of the API server, watched by its name.

use crate::error::watch_failure;
use futures::{Stream, StreamExt};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::watch_object;
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use std::fmt::Debug;

/// The object, now and after each change; none: there is no such object. The error says why that is not known. It never ends: the library lists
/// again after an expired version (410), and reconnects, with pauses of at most 30 s.
pub(crate) fn watched<K>(
    api: Api<K>,
    name: &str,
) -> impl Stream<Item = Result<Option<K>, String>> + Send + use<K>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let kind = K::kind(&());
    let namespace = api.namespace().map(str::to_owned);
    let name = name.to_owned();
    let mut lost = false;
    let objects = watch_object(api, &name).default_backoff();
    objects.map(move |object| {
        let namespace = namespace.as_deref();
        match object {
            Ok(object) => {
                if std::mem::take(&mut lost) {
                    tracing::info!(%kind, namespace, name, "watch restored");
                }
                Ok(object)
            }
            Err(error) => {
                let reason = watch_failure(&error);
                if !std::mem::replace(&mut lost, true) {
                    tracing::warn!(%kind, namespace, name, reason, "not watched for now");
                }
                Err(format!("{kind} {name} cannot be watched: {reason}"))
            }
        }
    })
}
