//! Sessions with a storage system whose login none of the host's schemes (`auth` of `grants.network`) fits.
//!
//! Each call runs in a new instance, so a token cannot be kept in a global. The host keeps it in memory, for all calls of this version in its process:
//! one call logs in, and the others wait for what it yields.
//!
//! ```
//! use std::time::Duration;
//! use wasmount_guest::secrets::Secret;
//! use wasmount_guest::{Error, session, testing};
//!
//! fn token() -> Result<Secret, Error> {
//!     session::get("array", || {
//!         // Here the plugin logs in.
//!         Ok(session::Login { value: Secret::new("9f2c"), lasts: Duration::from_secs(1200) })
//!     })
//! }
//!
//! testing::reset();
//! let first = token().unwrap();
//! // The storage system refused it: the next call logs in again.
//! session::invalidate("array", &first);
//! ```

use crate::call;
use crate::error::Error;
use crate::imports::session::{self, Found};
use crate::secrets::Secret;
use std::time::Duration;

/// What a login yielded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Login {
    /// A token, or whatever else proves the login; at most 64 KiB.
    pub value: Secret,
    /// How long the storage system accepts it.
    pub lasts: Duration,
}

/// The value of a key. If there is none, `login` is called, by one call at a time; others wait for its value within their own time.
pub fn get(key: &str, login: impl FnOnce() -> Result<Login, Error>) -> Result<Secret, Error> {
    match session::get(key, milliseconds(call::remaining()))? {
        Found::Value(value) => String::from_utf8(value)
            .map(Secret::new)
            .map_err(|_| Error::internal(format!("the session `{key}` is no text"))),
        Found::Yours(lease) => {
            let Login { value, lasts } = login()?;
            lease.keep(value.expose().as_bytes(), milliseconds(lasts))?;
            Ok(value)
        }
    }
}

/// Says that the storage system no longer accepts this value. A newer value of the key stays.
pub fn invalidate(key: &str, value: &Secret) {
    session::invalidate(key, value.expose().as_bytes());
}

fn milliseconds(duration: Duration) -> u32 {
    u32::try_from(duration.as_millis()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use std::cell::Cell;

    /// The token of a system that numbers its logins.
    fn token(logins: &Cell<u32>) -> Result<Secret, Error> {
        get("array", || {
            logins.set(logins.get() + 1);
            Ok(Login {
                value: Secret::new(format!("token-{}", logins.get())),
                lasts: Duration::from_secs(60),
            })
        })
    }

    #[test]
    fn calls_share_a_login_until_its_value_is_refused() {
        testing::reset();
        let logins = Cell::new(0);
        let first = token(&logins).unwrap();
        assert_eq!(token(&logins).unwrap(), first);
        assert_eq!(logins.get(), 1);
        invalidate("array", &first);
        let second = token(&logins).unwrap();
        assert_eq!(second.expose(), "token-2");
        // A call that was refused with the first value comes late.
        invalidate("array", &first);
        assert_eq!(token(&logins).unwrap(), second);
        testing::lose_sessions();
        assert_eq!(token(&logins).unwrap().expose(), "token-3");
    }

    #[test]
    fn a_failed_login_is_the_answer_and_is_not_kept() {
        testing::reset();
        let failed = get("array", || Err(Error::unavailable("no array")));
        assert_eq!(failed, Err(Error::unavailable("no array")));
        assert_eq!(token(&Cell::new(0)).unwrap().expose(), "token-1");
    }
}
