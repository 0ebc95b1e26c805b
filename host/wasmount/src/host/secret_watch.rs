//! Wakes a backend's reconciler when a Secret that its document names has changed.
//!
//! It reads no value: values are read when a version is made.

use super::backends::Backends;
use std::collections::BTreeSet;
use std::future::pending;
use std::sync::Arc;
use wasmount_core::document::{PluginPlace, SecretSource, StorageBackend};
use wasmount_kubernetes::storage_backend::{SecretName, secrets_changed};

/// Never returns.
pub(super) async fn watch(backends: Arc<Backends>) {
    let Some(client) = backends.common().cluster.client.clone() else {
        return pending().await;
    };
    let mut changes = backends.changes();
    loop {
        changes.borrow_and_update();
        let names = all_named(&backends);
        let check_again = |name: &SecretName| {
            for (driver, seen) in backends.all() {
                if named(&seen.desired.borrow().document).contains(name) {
                    tracing::debug!(%driver, "a Secret of the backend may have changed");
                    seen.reconciler.check_again();
                }
            }
        };
        let others = async {
            while all_named(&backends) == names {
                if changes.changed().await.is_err() {
                    return pending().await;
                }
            }
        };
        tokio::select! {
            () = secrets_changed(client.clone(), names.clone(), check_again) => {}
            () = others => {}
        }
    }
}

fn all_named(backends: &Backends) -> BTreeSet<SecretName> {
    let all = backends.all().into_values();
    all.flat_map(|seen| named(&seen.desired.borrow().document))
        .collect()
}

fn named(document: &StorageBackend) -> BTreeSet<SecretName> {
    let credentials = match &document.plugin.place {
        PluginPlace::Registry(place) => place.credentials.as_ref(),
        PluginPlace::File(_) => None,
    };
    let sources = document.secrets.values().chain(credentials);
    let objects = sources.filter_map(|source| match source {
        SecretSource::File(_) => None,
        SecretSource::Object {
            namespace, name, ..
        } => Some(SecretName {
            namespace: namespace.clone(),
            name: name.clone(),
        }),
    });
    objects.collect()
}
