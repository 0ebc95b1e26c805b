//! Why a backend is not added, or not removed.

use crate::fault::Fault;
use std::fmt;
use wasmount_core::mounter::VolumeInUse;
use wasmount_core::names::DriverName;
use wasmount_core::text::listed;

/// Volumes that a rejection names. 10: a person reads the first ones; `wasmount volumes` names all.
const NAMED: usize = 10;

/// Why a document is not served.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ApplyError {
    /// Two documents name the same driver.
    #[error(
        "the driver {driver} is that of {by} already: give this backend a driverName of its own"
    )]
    Taken {
        /// The driver name.
        driver: DriverName,
        /// The document that has it.
        by: String,
    },
    /// It cannot be served.
    #[error("{0}")]
    Fault(#[from] Fault),
}

/// Why a backend is not removed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RemoveError {
    /// No such driver is served.
    #[error("no driver {driver} is served here")]
    Unknown {
        /// The requested driver.
        driver: DriverName,
    },
    /// It has volumes in use.
    #[error(
        "the driver {driver} has {} in use on this node: {}; delete or move their pods first, or use --force",
        counted(volumes),
        named(volumes)
    )]
    StillStaged {
        /// The driver.
        driver: DriverName,
        /// The volumes in use.
        volumes: Vec<VolumeInUse>,
    },
    /// It is not known whether volumes are in use.
    #[error(
        "whether volumes of {driver} are in use is unknown: {reason}; repair that, or use --force"
    )]
    Unknowable {
        /// The driver.
        driver: DriverName,
        /// The cause.
        reason: String,
    },
}

fn counted(volumes: &[VolumeInUse]) -> impl fmt::Display {
    match volumes.len() {
        1 => "1 volume".to_owned(),
        many => format!("{many} volumes"),
    }
}

fn named(volumes: &[VolumeInUse]) -> String {
    let names: Vec<_> = volumes.iter().map(|it| it.volume.to_string()).collect();
    listed(&names, NAMED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wasmount_core::names::VolumeId;

    fn in_use(ids: impl IntoIterator<Item = String>) -> String {
        let volume = |id: String| VolumeInUse {
            volume: VolumeId::parse("volume_id", id.as_str()).unwrap(),
            staging_path: None,
            target_paths: Vec::new(),
        };
        let refused = RemoveError::StillStaged {
            driver: DriverName::parse("a.b").unwrap(),
            volumes: ids.into_iter().map(volume).collect(),
        };
        refused.to_string()
    }

    #[test]
    fn volumes_in_use_are_named_up_to_a_bound() {
        assert_eq!(
            in_use(["v".to_owned()]),
            "the driver a.b has 1 volume in use on this node: v; delete or move their pods first, or use --force"
        );
        let text = in_use((0..12).map(|number| format!("v{number}")));
        assert!(text.contains("has 12 volumes in use"), "{text}");
        assert!(text.contains(": v0, v1, "), "{text}");
        assert!(text.contains("v9 and 2 more; "), "{text}");
        let ten = in_use((0..10).map(|number| format!("v{number}")));
        assert!(ten.contains("v9; "), "{ten}");
    }
}
