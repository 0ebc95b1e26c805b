//! The flags of `wasmount serve` for StorageBackend objects.
//!
//! It opens nothing.

use crate::host::StorageBackendsOptions;
use clap::{Args, ValueEnum};
use wasmount_core::driver::Role;

/// Which objects are served.
#[derive(Debug, Args)]
pub(super) struct StorageBackendsFlags {
    /// Serve StorageBackend objects of the API server in addition to --backend; all, or those of a label selector
    #[arg(
        long,
        value_name = "SELECTOR",
        env,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = ""
    )]
    storage_backends: Option<String>,

    /// Whether this host may be elected to write the status of StorageBackend objects
    #[arg(long, env, default_value = "auto")]
    storage_backend_status: StatusArg,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum StatusArg {
    /// If it serves controller services
    Auto,
    /// Yes
    On,
    /// No: other hosts do
    Off,
}

impl StorageBackendsFlags {
    /// The flags as options of the host; none: it serves files only.
    pub(super) fn options(self, role: Role) -> Option<StorageBackendsOptions> {
        let selector = self.storage_backends?;
        Some(StorageBackendsOptions {
            selector: (!selector.is_empty()).then_some(selector),
            summarises: match self.storage_backend_status {
                StatusArg::Auto => role != Role::Node,
                StatusArg::On => true,
                StatusArg::Off => false,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct TestArgs {
        #[command(flatten)]
        flags: StorageBackendsFlags,
    }

    fn options(arguments: &[&str], role: Role) -> Option<StorageBackendsOptions> {
        let arguments = ["serve"].iter().chain(arguments);
        TestArgs::try_parse_from(arguments)
            .unwrap()
            .flags
            .options(role)
    }

    #[test]
    fn objects_are_served_on_request_all_or_by_selector() {
        assert_eq!(options(&[], Role::All), None);
        let all = options(&["--storage-backends"], Role::All).unwrap();
        assert_eq!((all.selector, all.summarises), (None, true));
        let some = options(&["--storage-backends=a=b,c!=d"], Role::Node).unwrap();
        assert_eq!(some.selector.as_deref(), Some("a=b,c!=d"));
        assert!(!some.summarises);
        let arguments = ["--storage-backends", "--storage-backend-status=on"];
        assert!(options(&arguments, Role::Node).unwrap().summarises);
    }
}
