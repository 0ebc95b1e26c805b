//! The CSIDriver object of each driver of a serving host, and reports of the result.

use crate::readiness::Readiness;
use kube::Client;
use std::sync::Arc;
use tokio::sync::watch;
use wasmount_core::capabilities::{Capabilities, Profile};
use wasmount_core::driver::{Driver, Role};
use wasmount_core::text::chain;
use wasmount_kubernetes::{Events, csi_driver};
use wasmount_versions::Desired;

/// Applies the object whenever another plugin serves or the document changes; ends with the host. Without an admitted plugin it applies nothing.
pub(super) async fn keep(
    client: Client,
    events: Events,
    driver: Arc<Driver>,
    mut desired: watch::Receiver<Desired>,
    profile: Profile,
    readiness: Arc<Readiness>,
) {
    let name = driver.name().clone();
    let objects = watch::Sender::new(None);
    let report = |contradicted| readiness.change(&name, |it| it.contradicted = contradicted);
    let applied = csi_driver::keep(client, events, objects.subscribe(), report);
    let derived = async {
        let mut offers = driver.offers();
        loop {
            let offer = offers.borrow_and_update().clone();
            let document = desired.borrow_and_update().document.clone();
            if let Some(offer) = offer {
                // All services, whichever of them this process serves: the object describes the whole driver.
                let capabilities =
                    Capabilities::derive(&offer, Role::All, profile, &document.hidden);
                let object = csi_driver::csi_driver(&name, &capabilities, &document.csi_driver);
                match object {
                    Ok(object) => drop(objects.send_replace(Some(object))),
                    Err(error) => {
                        let reason = chain(&error);
                        tracing::warn!(driver = %name, reason, "there is no CSIDriver object to apply");
                        readiness.change(&name, |it| it.contradicted = Some(reason));
                    }
                }
            }
            let changed = tokio::select! {
                changed = offers.changed() => changed,
                changed = desired.changed() => changed,
            };
            if changed.is_err() {
                return;
            }
        }
    };
    tokio::join!(applied, derived);
}
