//! What can go wrong between the host and Kubernetes. One enum for the room; none of it reaches a CSI client.

use std::error::Error as StdError;

/// Why something was not done for Kubernetes.
#[derive(Debug, thiserror::Error)]
pub enum KubernetesError {
    /// The API server cannot be reached as configured.
    #[error("the API server cannot be reached by {by}")]
    Access {
        /// File or service account.
        by: String,
        /// Why.
        #[source]
        source: Box<dyn StdError + Send + Sync>,
    },
    /// The API server says no, or nothing.
    #[error("{what} failed")]
    Api {
        /// What was asked, such as `read Node worker-1`.
        what: String,
        /// What it said.
        #[source]
        source: Box<kube::Error>,
    },
    /// What is there stands in the way, and a person must decide.
    #[error("{what}")]
    InTheWay {
        /// What it is, and what to do.
        what: String,
    },
    /// The API server does not answer.
    #[error(
        "the API server did not answer within {seconds} s ({what}); what was asked may still happen"
    )]
    Silent {
        /// What was asked.
        what: String,
        /// How long it had.
        seconds: u64,
    },
    /// There is no such kind, or no such namespace.
    #[error(
        "the API server knows no BackendRecord in this namespace: apply backendrecords.wasmount.io (`wasmount manifests --shared` prints it), and name a namespace \
         that is there in --state"
    )]
    NoRecords,
    /// Others write the same record without an end.
    #[error("BackendRecord {name} is written by others all the time: retry")]
    Contended {
        /// Its name.
        name: String,
    },
    /// Another account made it, or somebody changed it by hand.
    #[error(
        "BackendRecord {name} is of another driver or holds another key than its name says: look who made it (`kubectl get backendrecord {name} \
         --show-managed-fields -o yaml`), and delete it if it is nobody's"
    )]
    ForeignRecord {
        /// Its name.
        name: String,
    },
    /// This host may no longer work.
    #[error("the lease {name} is lost: {reason}")]
    LeaseLost {
        /// The lease.
        name: String,
        /// Who has it, or why it was not renewed.
        reason: String,
    },
    /// A resource version that cannot be compared.
    #[error("{name} has the resource version `{said}`, which is no number")]
    Revision {
        /// The object.
        name: String,
        /// What it has.
        said: String,
    },
    /// The document asks for capacities that nobody would tell.
    #[error(
        "spec.csiDriver.storageCapacity is true, and {driver} does not advertise GET_CAPACITY with topology: the scheduler would wait for ever \
         for CSIStorageCapacity objects; remove the key"
    )]
    NoCapacity {
        /// Which driver.
        driver: String,
    },
    /// An object that never can say what the driver needs.
    #[error(
        "CSIDriver {driver}: {fields}; the API server lets nobody change that. Stop the pods that use its volumes, \
         `kubectl delete csidriver {driver}`, and the host writes it anew"
    )]
    Immutable {
        /// Which driver.
        driver: String,
        /// Which fields, and what they say.
        fields: String,
    },
    /// Somebody else decided on a field.
    #[error(
        "CSIDriver {driver}: {conflicts}; let that manager change it or give it up, or serve with `--csidriver off`"
    )]
    OwnedByOthers {
        /// Which driver.
        driver: String,
        /// In the API server's words: managers and fields.
        conflicts: String,
    },
}

/// What the API server, or the way to it, says: for log lines, events and readiness.
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
        // Some libraries repeat the cause in their own words.
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

impl KubernetesError {
    /// All of it in one line.
    pub(crate) fn in_words(&self) -> String {
        match self {
            Self::Api { source, .. } => format!("{self}: {}", words(source)),
            other => causes(other),
        }
    }

    /// The API server did not decide: it may, later.
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

    /// An object says other than the driver needs.
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
