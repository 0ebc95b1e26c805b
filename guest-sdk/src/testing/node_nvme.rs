//! The interface `node-nvme` in memory.

use super::node_plan::{Source, add_to_source, take};
use crate::error::Error;
use crate::secrets::Scope;

/// A namespace of an NVMe subsystem over TCP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nvme {
    /// Addresses and ports of the subsystem's controllers.
    pub addresses: Vec<String>,
    /// The NQN of the subsystem.
    pub subsystem: String,
    /// The identity of the namespace.
    pub namespace_id: String,
    /// Fewest paths with which the volume may be used.
    pub minimum_paths: u32,
    /// How long to wait for the namespace, in milliseconds.
    pub wait_ms: u32,
    /// In-band authentication.
    pub dhchap: Option<Dhchap>,
}

/// Keys by the names of secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dhchap {
    /// Whose secrets both are.
    pub scope: Scope,
    /// The name of the secret that is the host's key.
    pub host_key: String,
    /// The name of the secret that is the controller's key.
    pub controller_key: Option<String>,
}

pub(crate) fn nvme(
    addresses: &[String],
    subsystem: &str,
    namespace_id: &str,
    minimum_paths: u32,
    wait_ms: u32,
) -> Result<(), Error> {
    take(Source::Nvme(Nvme {
        addresses: addresses.to_vec(),
        subsystem: subsystem.to_owned(),
        namespace_id: namespace_id.to_owned(),
        minimum_paths,
        wait_ms,
        dhchap: None,
    }))
}

pub(crate) fn dhchap(
    scope: Scope,
    host_key: &str,
    controller_key: Option<&str>,
) -> Result<(), Error> {
    let names = [Some(host_key), controller_key];
    let names: Vec<&str> = names.into_iter().flatten().collect();
    add_to_source(["dhchap", "nvme"], scope, &names, |source| match source {
        Source::Nvme(nvme) => {
            nvme.dhchap = Some(Dhchap {
                scope,
                host_key: host_key.to_owned(),
                controller_key: controller_key.map(str::to_owned),
            });
            Some(())
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;
    use crate::testing;

    const ID: &str = "00253858-0000-0000-0000-000000000001";

    #[test]
    fn a_namespace_is_recorded_with_its_keys_by_name() {
        testing::reset();
        testing::set_secret(Scope::Backend, "key", "DHHC-1:00:aaaa:");
        let plan = testing::record(|plan| {
            plan.nvme(&["192.0.2.1:4420"], "nqn.2026-01.example:a", ID, 1, 5000)?;
            plan.dhchap(Scope::Backend, "key", None)
        });
        let source = plan.unwrap().source;
        let dhchap = Dhchap {
            scope: Scope::Backend,
            host_key: "key".to_owned(),
            controller_key: None,
        };
        assert!(matches!(source, Source::Nvme(nvme) if nvme.dhchap == Some(dhchap)));
    }

    #[test]
    fn keys_of_another_source_are_refused() {
        testing::reset();
        testing::set_secret(Scope::Request, "key", "DHHC-1:00:aaaa:");
        let refused = testing::record(|plan| {
            plan.tmpfs(None)?;
            plan.dhchap(Scope::Request, "key", None)
        });
        let code = refused.map_err(|error| error.code).map(drop);
        assert_eq!(code, Err(Code::InvalidArgument));
    }
}
