//! Names of a component's imports and exports, bounded where they enter the host.

use crate::error::EngineError;

/// Most imports, and most exports. The contract and WASI together have some sixty.
const NAMES: usize = 512;
/// Longest name, in bytes. The longest of the contract and of WASI has 41.
const NAME_BYTES: usize = 256;

/// The names, or the error that there are too many or too long ones.
pub fn bounded<'a>(names: impl Iterator<Item = &'a str>) -> Result<Vec<String>, EngineError> {
    let mut bounded = Vec::new();
    for name in names {
        if name.len() > NAME_BYTES || bounded.len() == NAMES {
            return Err(EngineError::Compile(format!(
                "it has more than {NAMES} imports or exports, or one whose name is longer than {NAME_BYTES} bytes; build it with the SDK of this host"
            )));
        }
        bounded.push(name.to_owned());
    }
    Ok(bounded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_within_their_bounds_are_taken_and_others_refused() {
        let long = "n".repeat(NAME_BYTES);
        let taken = bounded([long.as_str(), "b"].into_iter());
        assert_eq!(taken.unwrap(), [long.as_str(), "b"]);
        let too_long = "n".repeat(NAME_BYTES + 1);
        assert!(bounded([too_long.as_str()].into_iter()).is_err());
        assert_eq!(
            bounded(std::iter::repeat_n("n", NAMES)).unwrap().len(),
            NAMES
        );
        let refused = bounded(std::iter::repeat_n("n", NAMES + 1)).unwrap_err();
        assert!(
            refused.to_string().contains("more than 512 imports"),
            "{refused}"
        );
    }
}
