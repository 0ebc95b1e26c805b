//! Components that did not compile, so that a retry costs nothing: a compiler that is asked again fails in the same way, after the same minutes.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use wasmount_sys::component::Checksum;

/// How many are remembered: more than any host has backends, few enough to look through.
const REMEMBERED: usize = 64;

/// The last ones, each with its reason.
#[derive(Debug, Default)]
pub(crate) struct Refused {
    last: Mutex<VecDeque<(Checksum, String)>>,
}

impl Refused {
    /// Why it did not compile.
    pub(crate) fn reason(&self, key: &Checksum) -> Option<String> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let found = last.iter().find(|(refused, _)| refused == key);
        found.map(|(_, reason)| reason.clone())
    }

    /// Remembers; the oldest is forgotten where there are too many.
    pub(crate) fn remember(&self, key: Checksum, reason: &str) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.push_back((key, reason.to_owned()));
        if last.len() > REMEMBERED {
            last.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_refusals_are_remembered_and_older_ones_forgotten() {
        let refused = Refused::default();
        for number in 0..=64 {
            refused.remember([number; 32], &number.to_string());
        }
        assert_eq!(refused.reason(&[0; 32]), None);
        assert_eq!(refused.reason(&[1; 32]).unwrap(), "1");
        assert_eq!(refused.reason(&[64; 32]).unwrap(), "64");
    }
}
