//! The functions of the contract as the host calls them: by which share of the calls, and what they may change.

use crate::gate::Share;

/// What a call may change. It follows from what the call is for: until a version serves it changes nothing, and reading changes nothing later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Records and pools.
    ReadWrite,
    /// Nothing; records and pools can be read.
    ReadOnly,
    /// Nothing; pools can be read, and records come with the call.
    Migration,
}

/// An export and how it is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Function {
    /// The interface that it belongs to.
    pub(crate) interface: &'static str,
    /// Its name in the contract.
    pub(crate) name: &'static str,
    pub(crate) share: Share,
    /// Whether it may record a plan.
    pub(crate) records: bool,
    pub(crate) access: Access,
}

impl Function {
    /// One that makes or reads things.
    pub(crate) const fn ordinary(interface: &'static str, name: &'static str) -> Self {
        Self {
            interface,
            name,
            share: Share::Ordinary,
            records: false,
            access: Access::ReadWrite,
        }
    }

    /// One that takes things down, or that a node or a health check waits for.
    pub(crate) const fn reserved(interface: &'static str, name: &'static str) -> Self {
        Self {
            share: Share::Reserved,
            ..Self::ordinary(interface, name)
        }
    }

    /// One that says by a plan what a volume is.
    pub(crate) const fn planning(interface: &'static str, name: &'static str) -> Self {
        Self {
            records: true,
            ..Self::reserved(interface, name)
        }
    }

    /// The same with another access.
    pub(crate) const fn with(self, access: Access) -> Self {
        Self { access, ..self }
    }
}
