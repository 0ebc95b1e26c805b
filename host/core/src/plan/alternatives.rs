//! The alternatives of the step `any-device`: sets of facts, of which each may lead to the device of a volume.

use crate::device_fact::DeviceFact;
use crate::names::InvalidField;
use serde::{Deserialize, Serialize};

/// Most alternatives. cinder-csi-plugin, which has the most names for one device, tries five.
pub const ALTERNATIVES: usize = 8;

/// One to [`ALTERNATIVES`] sets of facts, with at most as many facts as there are kinds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<Vec<(String, String)>>")]
pub struct Alternatives(Vec<Vec<(String, String)>>);

impl Alternatives {
    /// The sets of facts in their order.
    pub fn each(&self) -> &[Vec<(String, String)>] {
        &self.0
    }
}

impl TryFrom<Vec<Vec<(String, String)>>> for Alternatives {
    type Error = InvalidField;

    fn try_from(alternatives: Vec<Vec<(String, String)>>) -> Result<Self, InvalidField> {
        let rule = |problem| Err(InvalidField::rule("the list of alternatives", problem));
        if alternatives.is_empty() {
            return Err(InvalidField::empty("the list of alternatives"));
        }
        if alternatives.len() > ALTERNATIVES {
            return rule("has more than 8 sets of facts");
        }
        let most = DeviceFact::ALL.len();
        if alternatives.iter().any(|facts| facts.len() > most) {
            return rule("has a set of more than 6 facts; each kind of fact is there once");
        }
        Ok(Self(alternatives))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(sets: usize, facts: usize) -> Result<Alternatives, String> {
        let fact = ("by-id".to_owned(), "a".to_owned());
        let json = serde_json::to_string(&vec![vec![fact; facts]; sets]).unwrap();
        serde_json::from_str(&json).map_err(|error| error.to_string())
    }

    #[test]
    fn alternatives_within_the_bounds_are_read() {
        for (sets, facts) in [(1, 1), (8, 6)] {
            let read = read(sets, facts).unwrap();
            assert_eq!(read.each().len(), sets);
            let json = serde_json::to_string(&read).unwrap();
            assert_eq!(serde_json::from_str::<Alternatives>(&json).unwrap(), read);
        }
    }

    #[test]
    fn alternatives_beyond_the_bounds_are_refused() {
        for (sets, facts, told) in [
            (0, 1, "is empty"),
            (9, 1, "has more than 8 sets of facts"),
            (1, 7, "has a set of more than 6 facts"),
        ] {
            let refused = read(sets, facts).unwrap_err();
            assert!(refused.contains(told), "{refused}");
        }
    }
}
