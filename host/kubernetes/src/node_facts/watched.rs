//! All objects of a kind: listed once, then watched.

use crate::error::watch_failure;
use futures::StreamExt;
use kube::Api;
use kube::api::Resource;
use kube::runtime::WatchStreamExt;
use kube::runtime::reflector::Store;
use kube::runtime::reflector::store::Writer;
use kube::runtime::watcher::{self, Event, watcher};
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use std::hash::Hash;
use std::pin::pin;
use std::sync::Arc;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

/// Objects of one page of a listing. 500: that of kubectl; 5,000 nodes are ten requests.
const LIST_PAGE: u32 = 500;

/// The watch; it ends when this is dropped.
pub(super) struct Watched<K>
where
    K: Resource + Clone + 'static,
    K::DynamicType: Eq + Hash + Clone,
{
    objects: Store<K>,
    _watch: AbortOnDropHandle<()>,
}

impl<K> Watched<K>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    K::DynamicType: Eq + Hash + Clone + Send + Sync,
{
    /// Starts the watch of objects, those with `labels` if any, and notifies of each change. Call it in a runtime.
    pub(super) fn start(
        api: Api<K>,
        kind: K::DynamicType,
        labels: Option<&str>,
        changes: watch::Sender<()>,
    ) -> Self {
        let mut config = watcher::Config::default().page_size(LIST_PAGE);
        if let Some(labels) = labels {
            config = config.labels(labels);
        }
        let writer = Writer::new(kind.clone());
        let objects = writer.as_reader();
        let work = async move {
            let events = watcher(api, config).default_backoff();
            // What takes most of the memory is not kept.
            let events = events.modify(|object| {
                object.meta_mut().managed_fields = None;
                object.meta_mut().annotations = None;
            });
            let mut events = pin!(events.reflect(writer));
            while let Some(event) = events.next().await {
                match event {
                    Ok(Event::Init | Event::InitApply(_)) => {}
                    Ok(_) => changes.send_replace(()),
                    // It continues from where it was, or lists again.
                    Err(error) => {
                        let (kind, reason) = (K::kind(&kind), watch_failure(&error));
                        tracing::warn!(%kind, reason, "watch lost: retrying");
                    }
                }
            }
        };
        Self {
            objects,
            _watch: AbortOnDropHandle::new(tokio::spawn(work)),
        }
    }

    /// All objects. Waits until they have been listed.
    pub(super) async fn all(&self) -> Vec<Arc<K>> {
        // The writer lives as long as the task, which does not end until it is aborted.
        let _ = self.objects.wait_until_ready().await;
        self.objects.state()
    }
}
