//! The interface `session` in memory. It does not measure time: a value is kept until it is invalidated, or [`super::lose_sessions`].

use super::{attempt, with};
use crate::error::Error;

/// The answer of the host.
pub(crate) enum Found {
    Value(Vec<u8>),
    Yours(Lease),
}

/// The right to log in.
pub(crate) struct Lease {
    key: String,
}

impl Lease {
    pub(crate) fn keep(&self, value: &[u8], _ttl_ms: u32) -> Result<(), Error> {
        attempt(|host| {
            host.sessions.insert(self.key.clone(), value.to_owned());
            Ok(())
        })
    }
}

pub(crate) fn get(key: &str, _wait_ms: u32) -> Result<Found, Error> {
    attempt(|host| {
        Ok(match host.sessions.get(key) {
            Some(value) => Found::Value(value.clone()),
            None => Found::Yours(Lease {
                key: key.to_owned(),
            }),
        })
    })
}

pub(crate) fn invalidate(key: &str, value: &[u8]) {
    with(|host| {
        if host.sessions.get(key).is_some_and(|kept| kept == value) {
            host.sessions.remove(key);
        }
    });
}
