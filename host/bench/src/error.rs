//! Why a run measured nothing.

use crate::plan::PlanError;
use hdrhistogram::{AdditionError, CreationError};
use std::io;
use std::path::PathBuf;

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The socket does not answer as one of CSI.
    #[error(
        "the driver at {socket} cannot be measured: {rpc}: {reason}; name the socket of a CSI driver that serves"
    )]
    Driver {
        /// The socket.
        socket: PathBuf,
        /// What failed.
        rpc: &'static str,
        /// The driver's words.
        reason: String,
    },
    /// The driver lacks what the mix needs.
    #[error("the driver at {socket} cannot be measured")]
    Plan {
        /// The socket.
        socket: PathBuf,
        /// What it lacks.
        #[source]
        source: PlanError,
    },
    /// The paths of volumes cannot be made.
    #[error("no paths for volumes can be made in {path}; name another directory by --kubelet-dir")]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The disk cannot be measured.
    #[error(
        "the disk of {path} cannot be measured; name a directory that can be written to by --disk"
    )]
    Disk {
        /// The directory.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The run was ended before it began.
    #[error("interrupted before the first volume")]
    Interrupted,
    /// Figures cannot be kept.
    #[error("figures cannot be recorded")]
    Create(#[from] CreationError),
    /// Figures of rounds do not fit together.
    #[error("figures of rounds cannot be added up")]
    Add(#[from] AdditionError),
}
