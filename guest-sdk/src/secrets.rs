//! Secrets of the current call and of the backend.
//!
//! A step of a plan refers to a secret by name ([`crate::Plan::filesystem`]); such a secret need not be read at all.

use crate::error::Error;
use crate::imports;
use std::fmt;
use zeroize::Zeroizing;

pub use crate::bindings::imports::wasmount::csi::secrets::Scope;

/// A secret value: wiped from memory when dropped, and never shown by `{:?}`. There is no `Display`.
///
/// ```compile_fail,E0277
/// let secret = wasmount_guest::secrets::Secret::new("hunter2");
/// println!("{secret}");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Wraps a value as a secret.
    pub fn new(value: impl Into<String>) -> Self {
        Self(Zeroizing::new(value.into()))
    }

    /// The value itself: never format it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// Names of the secrets of a scope, in order.
pub fn names(scope: Scope) -> Vec<String> {
    imports::secrets::names(scope)
}

/// Whether there is a secret of this name.
pub fn has(scope: Scope, name: &str) -> bool {
    names(scope).iter().any(|it| it == name)
}

/// A secret of this request: named by the author of a StorageClass or of a pod.
pub fn of_request(name: &str) -> Option<Secret> {
    imports::secrets::get(Scope::Request, name).map(Secret::new)
}

/// A secret of this backend: named by the administrator. No request can shadow one.
pub fn of_backend(name: &str) -> Option<Secret> {
    imports::secrets::get(Scope::Backend, name).map(Secret::new)
}

/// A required secret: `invalid-argument` if the request lacks it, `failed-precondition` if the backend's document lacks it.
pub fn require(scope: Scope, name: &str) -> Result<Secret, Error> {
    imports::secrets::get(scope, name)
        .map(Secret::new)
        .ok_or_else(|| match scope {
            Scope::Request => Error::invalid_argument(format!(
                "the secret `{name}` is missing: name a Secret that holds it in the StorageClass"
            )),
            Scope::Backend => Error::failed_precondition(format!(
                "the secret `{name}` is missing: add it to `secrets` of the StorageBackend"
            )),
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;
    use crate::testing;

    #[test]
    fn a_secret_is_read_in_its_scope_and_not_shown() {
        testing::set_secret(Scope::Backend, "token", "hunter2");
        let secret = require(Scope::Backend, "token").unwrap();
        assert_eq!(secret.expose(), "hunter2");
        assert_eq!(format!("{secret:?}"), "Secret(..)");
        assert_eq!(of_backend("token"), Some(secret));
        assert_eq!(names(Scope::Backend), ["token"]);
        assert!(has(Scope::Backend, "token"));
    }

    #[test]
    fn a_secret_is_not_found_in_the_other_scope() {
        testing::set_secret(Scope::Backend, "token", "hunter2");
        assert_eq!(of_request("token"), None);
        assert_eq!(names(Scope::Request), Vec::<String>::new());
        assert!(!has(Scope::Request, "token"));
        let code = |scope, name| require(scope, name).map_err(|error| error.code);
        assert_eq!(code(Scope::Request, "token"), Err(Code::InvalidArgument));
        assert_eq!(code(Scope::Backend, "other"), Err(Code::FailedPrecondition));
    }
}
