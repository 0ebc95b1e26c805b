//! Errors of the host as a client of Kubernetes. One enum for the crate; none of them reaches a CSI client.

use std::error::Error as StdError;

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
        source: Box<dyn StdError + Send + Sync>,
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
    #[error("{what}")]
    InTheWay {
        /// The conflict, and what to do.
        what: String,
    },
    /// The API server does not answer.
    #[error(
        "the API server did not answer within {seconds} s ({what}); what was asked may still happen"
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
    /// Other hosts keep writing the same record.
    #[error("BackendRecord {name} is written by others all the time: retry")]
    Contended {
        /// Its name.
        name: String,
    },
    /// Another account created it, or a person changed it.
    #[error(
        "BackendRecord {name} is of another driver or holds another key than its name says: look who made it (`kubectl get backendrecord {name} \
         --show-managed-fields -o yaml`), and delete it if it is nobody's"
    )]
    ForeignRecord {
        /// Its name.
        name: String,
    },
    /// This host is no longer elected.
    #[error("the lease {name} is lost: {reason}")]
    LeaseLost {
        /// The lease.
        name: String,
        /// The new holder, or why the lease was not renewed.
        reason: String,
    },
    /// A resource version that cannot be compared.
    #[error("{name} has the resource version `{said}`, which is no number")]
    Revision {
        /// The object.
        name: String,
        /// The resource version.
        said: String,
    },
    /// The document enables storage capacity for a driver that does not report it.
    #[error(
        "spec.csiDriver.storageCapacity is true, and {driver} does not advertise GET_CAPACITY with topology: the scheduler would wait for ever \
         for CSIStorageCapacity objects; remove the key"
    )]
    NoCapacity {
        /// The driver.
        driver: String,
    },
    /// A CSIDriver object that cannot be changed to what the driver needs.
    #[error(
        "CSIDriver {driver}: {fields}; the API server lets nobody change that. Stop the pods that use its volumes, \
         `kubectl delete csidriver {driver}`, and the host writes it anew"
    )]
    Immutable {
        /// The driver.
        driver: String,
        /// The fields and their values.
        fields: String,
    },
    /// Another manager owns a field with another value.
    #[error(
        "CSIDriver {driver}: {conflicts}; let that manager change it or give it up, or serve with `--csidriver off`"
    )]
    OwnedByOthers {
        /// The driver.
        driver: String,
        /// The API server's message: managers and fields.
        conflicts: String,
    },
}

/// The error of the API server, or of the connection, as one string: for log lines, events and readiness.
pub(crate) fn words(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if status.is_forbidden() => format!(
            "{}: grant it (`wasmount manifests` prints the RBAC rules)",
            status.message
        ),
        kube::Error::Api(status) => format!("{} ({})", status.message, status.code),
        other => causes(other),
    }
}

/// An error with all of its causes.
pub(crate) fn causes(error: &dyn StdError) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        // Some libraries repeat the cause in their own message.
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

impl KubernetesError {
    /// The error and its causes in one line.
    pub(crate) fn in_words(&self) -> String {
        match self {
            Self::Api { source, .. } => format!("{self}: {}", words(source)),
            other => causes(other),
        }
    }

    /// The API server made no decision: it may later.
    pub(crate) fn is_unavailable(&self) -> bool {
        match self {
            Self::Access { .. } => true,
            Self::Api { source, .. } => match source.as_ref() {
                kube::Error::Api(status) => status.code == 429 || status.code >= 500,
                _ => true,
            },
            Self::Silent { .. } => true,
            _ => false,
        }
    }

    /// An object contradicts what the driver needs.
    pub(crate) fn contradicts(&self) -> bool {
        matches!(self, Self::Immutable { .. } | Self::OwnedByOthers { .. })
    }

    pub(crate) fn access<E>(by: impl Into<String>) -> impl FnOnce(E) -> Self
    where
        E: StdError + Send + Sync + 'static,
    {
        let by = by.into();
        move |source| Self::Access {
            by,
            source: Box::new(source),
        }
    }

    /// For `map_err`.
    pub fn api(what: impl Into<String>) -> impl FnOnce(kube::Error) -> Self {
        let what = what.into();
        move |source| Self::Api {
            what,
            source: Box::new(source),
        }
    }
}
