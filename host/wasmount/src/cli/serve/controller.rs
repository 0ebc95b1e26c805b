//! The flags of `wasmount serve` for controllers with several replicas.
//!
//! It opens nothing.

use crate::cli::cluster_values::namespace;
use crate::fault::Fault;
use crate::host::{ControllerOptions, StateOptions};
use clap::Args;
use wasmount_core::driver::Role;

/// The value for records in the API server.
const KUBERNETES: &str = "kubernetes";

/// Where records are, and who works.
#[derive(Debug, Args)]
pub(super) struct ControllerFlags {
    /// State store of backends: `local`, in the data directory, or `kubernetes[:NAMESPACE]`, in BackendRecord objects of the API server (by
    /// default in the namespace of the pod), shared by all replicas of a controller
    #[arg(
        long,
        value_name = "PLACE",
        env,
        default_value = "local",
        value_parser = place
    )]
    state: StateOptions,

    /// Serve only while this host holds the lease of its drivers; other hosts are on standby. Sidecars need no leader election
    #[arg(long, env)]
    leader_election: bool,
}

impl ControllerFlags {
    /// The flags as options of the host.
    pub(super) fn options(self, role: Role) -> Result<ControllerOptions, Fault> {
        match (&self.state, role) {
            (StateOptions::Kubernetes { .. }, Role::All | Role::Node) => Err(Fault::flag(
                "--state",
                "kubernetes",
                "what a host keeps about its node belongs to that node alone: serve with --role controller, or --state local",
            )),
            (StateOptions::Local, _) if self.leader_election => Err(Fault::flag(
                "--leader-election",
                "with --state local",
                "the next leader would not have the records of this one: add --role controller --state kubernetes",
            )),
            _ => Ok(ControllerOptions {
                state: self.state,
                elects: self.leader_election,
            }),
        }
    }
}

fn place(value: &str) -> Result<StateOptions, String> {
    match value.split_once(':') {
        None if value == "local" => Ok(StateOptions::Local),
        None if value == KUBERNETES => Ok(StateOptions::Kubernetes { namespace: None }),
        Some((KUBERNETES, value)) if namespace(value).is_ok() => Ok(StateOptions::Kubernetes {
            namespace: Some(value.to_owned()),
        }),
        _ => Err(
            "must be `local`, `kubernetes` or `kubernetes:` and the name of a namespace".to_owned(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(state: &str, leader_election: bool, role: Role) -> Result<ControllerOptions, Fault> {
        let state = place(state).unwrap();
        ControllerFlags {
            state,
            leader_election,
        }
        .options(role)
    }

    #[test]
    fn the_place_of_records_is_local_or_a_namespace() {
        assert_eq!(place("local"), Ok(StateOptions::Local));
        for (value, namespace) in [("kubernetes", None), ("kubernetes:a-1", Some("a-1"))] {
            let namespace = namespace.map(str::to_owned);
            assert_eq!(place(value), Ok(StateOptions::Kubernetes { namespace }));
        }
        for value in [
            "",
            "redb",
            "local:x",
            "kubernetes:",
            "kubernetes:A",
            "kubernetes:-a",
            "kubernetes:a/b",
        ] {
            assert!(place(value).is_err(), "{value}");
        }
    }

    #[test]
    fn shared_records_are_a_controllers_and_an_election_needs_them() {
        assert!(options("kubernetes", true, Role::Controller).is_ok_and(|it| it.elects));
        assert!(options("kubernetes", false, Role::Controller).is_ok_and(|it| !it.elects));
        assert!(options("local", false, Role::All).is_ok());
        for (state, elects, role) in [
            ("kubernetes", false, Role::Node),
            ("kubernetes", true, Role::All),
            ("local", true, Role::Controller),
        ] {
            let refused = options(state, elects, role);
            assert!(matches!(refused, Err(Fault::Flag(_))), "{state} {role:?}");
        }
    }
}
