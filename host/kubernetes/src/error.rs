//! Errors of the host as a client of Kubernetes. One enum for the crate; none of them reaches a CSI client.

use kube::core::Status;
use kube::runtime::watcher;
use wasmount_core::names::DriverName;
use wasmount_core::text::chain;

/// Why a Kubernetes operation failed.
#[derive(Debug, thiserror::Error)]
pub enum KubernetesError {
    /// The API server cannot be reached as configured.
    #[error("the API server cannot be reached by {by}")]
    Access {
        /// The file, or the service account.
        by: String,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The API server rejected the request or did not answer.
    #[error("{what} failed")]
    Api {
        /// The request, such as `read Node worker-1`.
        what: String,
        /// The error of the library.
        #[source]
        source: Box<kube::Error>,
    },
    /// Existing state conflicts, and a person must decide.
    #[error("{0}")]
    InTheWay(String),
    /// The API server does not answer.
    #[error(
        "the API server did not answer within {seconds} s ({what}); the request may still be carried out"
    )]
    Silent {
        /// The request.
        what: String,
        /// Its time limit.
        seconds: u64,
    },
    /// There is no such kind, or no such namespace.
    #[error(
        "the API server knows no BackendRecord in this namespace: apply backendrecords.wasmount.io (`wasmount manifests --shared` prints it), and name a namespace \
         that is there in --state"
    )]
    NoRecords,
    /// There are no such kinds.
    #[error(
        "the API server knows no StorageBackend objects: apply their definitions (`wasmount manifests --crd`)"
    )]
    NoBackends,
    /// Other hosts keep writing the same record.
    #[error("BackendRecord {0} was changed by other writers in every attempt: retry")]
    Contended(String),
    /// Another account created it, or a person changed it.
    #[error(
        "BackendRecord {0} is of another driver or holds another key than its name says: find out who created it (`kubectl get backendrecord {0} \
         --show-managed-fields -o yaml`), and delete it if it has no owner"
    )]
    ForeignRecord(String),
    /// This host is no longer elected.
    #[error("the lease {name} is lost: {reason}")]
    LeaseLost {
        /// The lease.
        name: String,
        /// The new holder, or why the lease was not renewed.
        reason: String,
    },
    /// A resource version that cannot be compared.
    #[error("{name} has the resource version `{found}`, which is not a number")]
    Revision {
        /// The object.
        name: String,
        /// The resource version.
        found: String,
    },
    /// The document enables storage capacity for a driver that does not report it.
    #[error(
        "spec.csiDriver.storageCapacity is true, and {0} does not advertise GET_CAPACITY with topology: the scheduler would wait indefinitely \
         for CSIStorageCapacity objects; remove the key"
    )]
    NoCapacity(DriverName),
    /// A CSIDriver object that contradicts what the driver needs.
    #[error("CSIDriver {driver}: {what}")]
    Contradiction {
        /// The driver.
        driver: String,
        /// The fields, and what to do.
        what: String,
    },
}

/// The error of the API server, or of the connection, as one string: for log lines, events and readiness.
pub(crate) fn describe(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if status.is_forbidden() => format!(
            "{}: grant it (`wasmount manifests` prints the RBAC rules)",
            status.message
        ),
        kube::Error::Api(status) => format!("{} ({})", status.message, status.code),
        other => chain(other),
    }
}

/// Why a watch does not work now.
pub(crate) fn watch_failure(error: &watcher::Error) -> String {
    match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => match error {
            // Lists of Kubernetes' own kinds are empty instead.
            kube::Error::Api(status) if status.code == 404 => {
                "the API server does not know them: apply their definitions (`wasmount manifests --shared`)"
                    .to_owned()
            }
            other => describe(other),
        },
        other => chain(other),
    }
}

impl KubernetesError {
    /// The error and its causes in one line.
    pub fn describe(&self) -> String {
        match self {
            Self::Api { source, .. } => format!("{self}: {}", describe(source)),
            other => chain(other),
        }
    }

    /// The answer of the API server, if it rejected the request.
    pub(crate) fn rejection(&self) -> Option<&Status> {
        if let Self::Api { source, .. } = self
            && let kube::Error::Api(status) = source.as_ref()
        {
            return Some(status);
        }
        None
    }

    /// The API server made no decision: it may later.
    pub(crate) fn is_unavailable(&self) -> bool {
        match self {
            Self::Access { .. } | Self::Silent { .. } => true,
            Self::Api { .. } => self
                .rejection()
                .is_none_or(|status| status.code == 429 || status.code >= 500),
            _ => false,
        }
    }

    /// The object is not the one that was read.
    pub(crate) fn is_conflict(&self) -> bool {
        self.rejection().is_some_and(Status::is_conflict)
    }

    /// Another writer was first. A failed test is `Invalid`, as other rejections are; those occur again after a new read.
    pub(crate) fn is_stale_write(&self) -> bool {
        self.rejection().is_some_and(|status| {
            status.is_conflict()
                || status.is_already_exists()
                || status.is_invalid()
                || status.is_not_found()
        })
    }
}
