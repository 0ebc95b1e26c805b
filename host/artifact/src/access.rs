//! What a registry is reached with: who we are, whom we trust, how long we wait.

use crate::patience::Patience;
use serde::{Deserialize, Serialize};
use std::fmt;
use zeroize::Zeroizing;

/// How a registry is reached.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Access {
    /// Who asks.
    pub credentials: Credentials,
    /// The system's certificates, PEM ([`system_certificates`](crate::system_certificates)).
    pub system_ca: Vec<u8>,
    /// Certificates, PEM, that are trusted beside the system's; each must be one.
    pub extra_ca: Option<Vec<u8>>,
    /// Speaks HTTP without TLS.
    pub plain_http: bool,
    /// How long is waited.
    pub patience: Patience,
}

/// Who asks.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub enum Credentials {
    /// Nobody that is known.
    #[default]
    Anonymous,
    /// Somebody with a password.
    Login(Login),
}

/// A user and a password, and where they were found.
#[derive(Clone, Serialize, Deserialize)]
pub struct Login {
    user: String,
    password: Zeroizing<String>,
    found: String,
}

impl Login {
    /// `found` is where: the entry of a file, for whoever has to mend it.
    pub fn new(user: String, password: Zeroizing<String>, found: String) -> Self {
        Self {
            user,
            password,
            found,
        }
    }

    pub(crate) fn user(&self) -> &str {
        &self.user
    }

    pub(crate) fn password(&self) -> &str {
        &self.password
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login")
            .field("user", &self.user)
            .field("found", &self.found)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Anonymous => f.write_str("no credentials were sent"),
            Self::Login(Login { user, found, .. }) => {
                write!(f, "sent were those of the user `{user}` from {found}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_in_no_text() {
        let password = Zeroizing::new("hunter2".to_owned());
        let login = Login::new("ann".to_owned(), password, "config.json".to_owned());
        let credentials = Credentials::Login(login);
        for text in [format!("{credentials:?}"), credentials.to_string()] {
            assert!(text.contains("ann") && !text.contains("hunter2"), "{text}");
        }
    }
}
