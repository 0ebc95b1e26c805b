//! What one call into a guest used, for whoever looks inside a plugin. Limits count for themselves, and where nobody asked to be told, a call costs
//! one look at an empty cell.

use crate::function::Function;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// What one call into a guest used, however it ended. One call of CSI may be several of these, or none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Usage {
    /// The interface of the contract, such as `controller`.
    pub interface: &'static str,
    /// Its function, such as `create-volume`.
    pub function: &'static str,
    /// From its place at the gate to its last durable write.
    pub wall: Duration,
    /// Of that, computing.
    pub cpu: Duration,
    /// Linear memory at the end, which is the most that there was: it never shrinks.
    pub memory_bytes: u64,
    /// Calls of the contract's own functions; those of WASI are not among them.
    pub host_calls: u64,
}

/// Who is told.
type Tell = Box<dyn Fn(Usage) + Send + Sync>;

/// Whom an engine tells of the use of each call; nobody at first.
#[derive(Clone, Default)]
pub(crate) struct UsageWatch(Arc<OnceLock<Tell>>);

impl fmt::Debug for UsageWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let watched = self.0.get().is_some();
        f.debug_tuple("UsageWatch").field(&watched).finish()
    }
}

impl UsageWatch {
    /// Who asks first is told; who asks later is not. Whether it was the first.
    pub(crate) fn set(&self, tell: impl Fn(Usage) + Send + Sync + 'static) -> bool {
        self.0.set(Box::new(tell)).is_ok()
    }

    /// A call has ended.
    pub(crate) fn tell(
        &self,
        function: Function,
        wall: Duration,
        cpu: Duration,
        memory_bytes: u64,
        host_calls: u64,
    ) {
        if let Some(tell) = self.0.get() {
            tell(Usage {
                interface: function.interface,
                function: function.name,
                wall,
                cpu,
                memory_bytes,
                host_calls,
            });
        }
    }
}
