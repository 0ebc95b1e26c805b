//! The resource `lease` of the interface `session`.

use wasmount_network::Lease;

/// The right to log in; none: it was used.
#[allow(unreachable_pub, reason = "the generated bindings export it again")]
pub struct HeldLease(Option<Lease>);

impl HeldLease {
    pub(crate) fn of(lease: Lease) -> Self {
        Self(Some(lease))
    }

    /// The right, once.
    pub(crate) fn take(&mut self) -> Option<Lease> {
        self.0.take()
    }
}
