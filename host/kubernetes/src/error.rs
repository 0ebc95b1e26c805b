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
}

impl KubernetesError {
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
