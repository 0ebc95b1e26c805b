//! StorageBackend objects of the API server: they are applied to this host's backends, and the status of those is reported.
//!
//! It holds no rule of Kubernetes, and none of versions. Only the deletion of an object stops a serving backend.

mod converge;
mod observed;

use super::backends::Backends;
use super::{STORAGE_BACKENDS, blocking};
use crate::fault::Fault;
use converge::Converging;
use std::sync::Arc;
use tokio::sync::watch;
use tokio::task::JoinSet;
use wasmount_core::driver::Role;
use wasmount_core::names::DriverName;
use wasmount_kubernetes::storage_backend::{
    HostIdentity, Reporter, StorageBackends, Summarising, summarise, write_reports,
};

/// The options of the command line for StorageBackend objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StorageBackendsOptions {
    /// A label selector; none: all objects.
    pub(crate) selector: Option<String>,
    /// Whether this host may be elected to write their status.
    pub(crate) summarises: bool,
}

/// Objects that are about to be served.
pub(super) struct Objects {
    backends: Arc<Backends>,
    options: StorageBackendsOptions,
    objects: Arc<StorageBackends>,
}

/// Reads the objects that were seen last; none if the command line requests no objects.
pub(super) async fn open(backends: &Arc<Backends>) -> Result<Option<Objects>, Fault> {
    let common = backends.common();
    let Some(options) = common.options.storage_backends.clone() else {
        return Ok(None);
    };
    let kept = common.options.data_dir.join(STORAGE_BACKENDS);
    let host = HostIdentity {
        name: common.cluster.node_name.clone(),
        on_node: common.options.role != Role::Controller,
    };
    let objects = blocking(move || Ok(StorageBackends::open(kept, host))).await?;
    Ok(Some(Objects {
        backends: backends.clone(),
        options,
        objects,
    }))
}

impl Objects {
    /// The drivers that were served last.
    pub(super) fn drivers(&self) -> Vec<DriverName> {
        let desired = self.objects.desired();
        let all = desired.borrow().clone().into_values();
        all.filter_map(|it| Some(it.document.as_ref().ok()?.driver_name.clone()))
            .collect()
    }

    /// Follows the objects from now on; those that were seen last are served at once, whether or not the API server answers.
    pub(super) fn start(self, background: &mut JoinSet<()>) {
        let Self {
            backends,
            options,
            objects,
        } = self;
        let (reports, reported) = watch::channel(Default::default());
        let converging = Converging::new(backends.clone(), objects.clone(), reports);
        background.spawn(converging.run());
        let common = backends.common();
        let Some(client) = common.cluster.client.clone() else {
            tracing::error!(
                "there is no API server to watch StorageBackends: serving the cached ones"
            );
            return;
        };
        let host = common.cluster.node_name.clone();
        let reporter = Reporter {
            client: client.clone(),
            host: host.clone(),
            on_node: common.options.role != Role::Controller,
        };
        background.spawn(write_reports(reporter, reported, objects.rate_limit()));
        if options.summarises {
            let who = Summarising {
                namespace: client.default_namespace().to_owned(),
                client: client.clone(),
                host,
                selector: options.selector.clone(),
            };
            let objects = objects.clone();
            background.spawn(async move { summarise(who, &objects).await });
        }
        background.spawn(async move { objects.follow(client, options.selector.as_deref()).await });
    }
}
