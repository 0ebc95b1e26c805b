//! The values of a fact, within their limits. Other processes tell them: the mounter, and hosts of other nodes.

use serde::{Deserialize, Serialize};

/// Most values of a fact. 64: addresses of a node that is in many networks.
pub const VALUES: usize = 64;
/// Longest value, in bytes: Nova's column for the name of a zone. Names of iSCSI and NVMe have at most 223.
pub const VALUE_BYTES: usize = 255;

/// Values of a fact; empty: the node has none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<String>")]
pub struct FactValues(Vec<String>);

/// Why values are not used. It never repeats them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidFactValues {
    /// Too many.
    #[error("a fact of the node has at most {VALUES} values")]
    Many,
    /// One of them.
    #[error(
        "a value is empty, longer than {VALUE_BYTES} bytes, or has control characters: no fact of a node has such a value"
    )]
    Value,
}

impl FactValues {
    /// The values.
    pub fn into_vec(self) -> Vec<String> {
        self.0
    }
}

impl TryFrom<Vec<String>> for FactValues {
    type Error = InvalidFactValues;

    fn try_from(values: Vec<String>) -> Result<Self, InvalidFactValues> {
        if values.len() > VALUES {
            return Err(InvalidFactValues::Many);
        }
        match values.iter().all(|value| is_value(value)) {
            true => Ok(Self(values)),
            false => Err(InvalidFactValues::Value),
        }
    }
}

pub(super) fn is_value(value: &str) -> bool {
    !value.is_empty() && value.len() <= VALUE_BYTES && !value.contains(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_within_their_limits_are_kept_in_order() {
        for values in [
            Vec::new(),
            vec!["b".to_owned(), "a".to_owned()],
            vec!["v".repeat(VALUE_BYTES); VALUES],
        ] {
            let kept = FactValues::try_from(values.clone()).unwrap();
            assert_eq!(kept.into_vec(), values);
        }
    }

    #[test]
    fn values_beyond_their_limits_are_refused() {
        for (values, refused) in [
            (vec!["v".to_owned(); VALUES + 1], InvalidFactValues::Many),
            (vec![String::new()], InvalidFactValues::Value),
            (vec!["v".repeat(VALUE_BYTES + 1)], InvalidFactValues::Value),
            (vec!["a\nb".to_owned()], InvalidFactValues::Value),
        ] {
            let json = serde_json::to_string(&values).unwrap();
            assert_eq!(FactValues::try_from(values), Err(refused));
            assert!(serde_json::from_str::<FactValues>(&json).is_err());
        }
    }
}
