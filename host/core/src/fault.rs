//! Faults of a plugin: failures whose cause is the plugin or its document, not a request.
//!
//! A fault contains no string of a request or a guest, except the plugin's own name: reports of faults reach people who may not see the volume's
//! secrets.

mod owner;

pub use crate::blame::{Blame, Owner, RefusedString, RequestContent, RequestStrings};
pub use crate::call::Origin;

use crate::backend::{BackendError, PluginLabel};
use crate::code::Code;
use crate::error::Error;
use crate::mounter::MountError;
use crate::names::DriverName;
use crate::rpc::Rpc;

named! {
    /// The kind of a fault, with its name for programs, such as the label of a metric.
    pub enum FaultKind, as_str {
        /// The guest trapped.
        Trapped = "trapped",
        /// It exceeded one of its limits of size or number.
        OverLimit = "over_limit",
        /// It exceeded its time, computing or waiting.
        OutOfTime = "out_of_time",
        /// An answer or a plan that breaks a rule.
        BadAnswer = "bad_answer",
        /// It made a request to the host that no plugin may make.
        Refused = "refused",
        /// It made a request that its document does not grant.
        NotGranted = "not_granted",
        /// All its concurrent calls are in use (`limits.concurrency`).
        Busy = "busy",
        /// No version of it could be loaded.
        NotLoaded = "not_loaded",
    }
}

/// A fault, as reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginFault {
    /// The driver.
    pub driver: DriverName,
    /// The RPC.
    pub rpc: Rpc,
    /// The kind.
    pub kind: FaultKind,
    /// The plugin; absent if none is loaded, or if it is irrelevant.
    pub plugin: Option<PluginLabel>,
    /// The limit that was exceeded, as text of the host.
    pub limit: Option<String>,
    /// The objects for which the call was made.
    pub origin: Origin,
}

impl PluginFault {
    /// The fault behind a failed call; none if the request, the node or the storage caused the failure.
    pub(crate) fn of(
        driver: &DriverName,
        rpc: Rpc,
        error: &Error,
        origin: &Origin,
        request: RequestContent<'_>,
    ) -> Option<Self> {
        let (kind, plugin, limit) = match error {
            Error::Backend(error) => of_backend(error)?,
            Error::Plan { plugin, source } => {
                let kind = match source {
                    MountError::NotGranted { .. } => FaultKind::NotGranted,
                    _ => FaultKind::BadAnswer,
                };
                (kind, Some(plugin.as_ref()), None)
            }
            Error::NoPlugin { .. } => (FaultKind::NotLoaded, None, None),
            Error::AfterEffect { source } => return Self::of(driver, rpc, source, origin, request),
            _ => return None,
        };
        if kind.owner() == Owner::Plugin && error.owner(request) != Owner::Plugin {
            return None;
        }
        Some(Self {
            driver: driver.clone(),
            rpc,
            kind,
            plugin: plugin.cloned(),
            limit,
            origin: origin.clone(),
        })
    }
}

type Parts<'a> = (FaultKind, Option<&'a PluginLabel>, Option<String>);

fn of_backend(error: &BackendError) -> Option<Parts<'_>> {
    Some(match error {
        BackendError::Trapped { plugin, .. } => (FaultKind::Trapped, Some(plugin), None),
        BackendError::OverLimit { plugin, limit, .. } => {
            (FaultKind::OverLimit, Some(plugin), Some(limit.clone()))
        }
        BackendError::OutOfTime {
            plugin, seconds, ..
        } => {
            let limit = format!("limits.time ({seconds} s)");
            (FaultKind::OutOfTime, Some(plugin), Some(limit))
        }
        BackendError::BadAnswer { plugin, .. } => (FaultKind::BadAnswer, Some(plugin), None),
        BackendError::Refused { plugin, code, .. } => {
            let kind = match code {
                Code::PermissionDenied => FaultKind::NotGranted,
                _ => FaultKind::Refused,
            };
            (kind, Some(plugin), None)
        }
        BackendError::Busy { limit } => {
            let limit = format!("limits.concurrency ({limit})");
            (FaultKind::Busy, None, Some(limit))
        }
        BackendError::MemoryBusy { bytes } => {
            let limit = format!("limits.memory ({bytes} bytes of all calls)");
            (FaultKind::Busy, None, Some(limit))
        }
        BackendError::Answered { .. }
        | BackendError::NotOffered { .. }
        | BackendError::HostFailed { .. }
        | BackendError::Withheld { .. }
        | BackendError::Cancelled => return None,
    })
}

#[cfg(test)]
mod tests;
