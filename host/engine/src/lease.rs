//! The resource `lease` of the interface `session`.

/// The right to log in; none: it was used.
#[allow(unreachable_pub, reason = "the generated bindings export it again")]
pub type HeldLease = Option<wasmount_network::Lease>;
