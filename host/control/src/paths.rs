//! The paths of the requests.

use crate::error::ControlError;
use wasmount_core::names::DriverName;

/// GET: [`crate::messages::HostStatus`].
pub const STATUS: &str = "/v1/status";
/// GET: [`crate::messages::LogLevel`]; POST, [`crate::messages::LogLevel`]: the same.
pub const LOG_LEVEL: &str = "/v1/log-level";
/// GET: [`crate::messages::History`].
pub const HISTORY: &str = "/v1/drivers/{driver}/history";
/// GET: [`crate::messages::Volumes`].
pub const VOLUMES: &str = "/v1/drivers/{driver}/volumes";
/// POST, [`crate::messages::Swap`]: [`crate::messages::Done`].
pub const SWAP: &str = "/v1/drivers/{driver}/swap";
/// POST, [`crate::messages::Rollback`]: [`crate::messages::Done`].
pub const ROLLBACK: &str = "/v1/drivers/{driver}/rollback";
/// POST: [`crate::messages::Done`].
pub const PAUSE: &str = "/v1/drivers/{driver}/pause";
/// POST: [`crate::messages::Done`].
pub const RESUME: &str = "/v1/drivers/{driver}/resume";
/// POST, [`crate::messages::Drain`]: [`crate::messages::Drained`].
pub const DRAIN: &str = "/v1/drivers/{driver}/drain";
/// POST, [`crate::messages::Delete`]: [`crate::messages::Done`].
pub const DELETE: &str = "/v1/drivers/{driver}/delete";

/// One of these paths for one driver. A string that is no driver's name is not put into a path.
pub(crate) fn of(path: &str, driver: &str) -> Result<String, ControlError> {
    let name = DriverName::parse(driver).map_err(|_| ControlError::NoDriver {
        name: driver.to_owned(),
    })?;
    Ok(path.replace("{driver}", name.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_its_driver() {
        assert_eq!(of(SWAP, "a.b").unwrap(), "/v1/drivers/a.b/swap");
        assert_eq!(of(STATUS, "a.b").unwrap(), "/v1/status");
    }

    #[test]
    fn what_would_lead_elsewhere_is_no_driver() {
        for name in ["a.b", "A-1"] {
            assert!(of(SWAP, name).is_ok(), "{name}");
        }
        for name in ["", "a/b", "a b", "a?b", "a#b", "é", &"a".repeat(64)] {
            assert!(of(SWAP, name).is_err(), "{name}");
        }
    }
}
