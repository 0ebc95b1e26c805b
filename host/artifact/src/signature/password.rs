//! The password of a private key.

use std::fmt;
use zeroize::Zeroizing;

/// A password, which may be empty.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Password(Zeroizing<Vec<u8>>);

impl Password {
    /// These bytes.
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(Zeroizing::new(bytes))
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a password")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_compared_and_never_shown() {
        let password = Password::new(b"hunter2".to_vec());
        assert_eq!(password, Password::new(b"hunter2".to_vec()));
        assert_ne!(password, Password::default());
        assert_eq!(format!("{password:?}"), "a password");
    }
}
