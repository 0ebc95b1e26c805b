//! Reports nodes that the storage system of a driver could not register: an event on the Node.

use crate::event_rate_limiter::EventRateLimiter;
use crate::events::{About, Events};
use std::time::Instant;
use tokio::sync::mpsc::Receiver;
use wasmount_core::driver::NodeReport;
use wasmount_core::names::DriverName;
use wasmount_core::rpc::Rpc;

/// Reports each of them, as long as the driver exists. The log has the reason: an event has no text of a guest.
pub async fn report_nodes(events: Events, driver: DriverName, mut reports: Receiver<NodeReport>) {
    let mut repeated = EventRateLimiter::new(Instant::now());
    while let Some(NodeReport { node, rpc }) = reports.recv().await {
        let (reason, note) = described(&driver, rpc);
        let about = About::node(&node);
        if repeated.may_write(&about, reason, Instant::now())
            && !events.warn(&about, reason, rpc.name(), note).await
        {
            repeated.not_written(&about, reason);
        }
    }
}

fn described(driver: &DriverName, rpc: Rpc) -> (&'static str, String) {
    let (reason, what, effect) = match rpc {
        Rpc::UnregisterNode => (
            "NodeNotUnregistered",
            "still knows this node",
            "It is asked again.",
        ),
        _ => (
            "NodeNotRegistered",
            "could not register this node",
            "It is asked again; until then volumes may not attach here.",
        ),
    };
    let note = format!(
        "The storage system of driver {driver} {what}. {effect} The log of the driver's controller has the reason."
    );
    (reason, note)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_names_the_driver_and_the_effect() {
        let driver = DriverName::parse("a.example").unwrap();
        let (reason, note) = described(&driver, Rpc::RegisterNode);
        assert_eq!(reason, "NodeNotRegistered");
        assert!(
            note.contains("driver a.example could not register"),
            "{note}"
        );
        let (reason, note) = described(&driver, Rpc::UnregisterNode);
        assert_eq!(reason, "NodeNotUnregistered");
        assert!(!note.contains("attach"), "{note}");
    }
}
