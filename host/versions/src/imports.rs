//! Checks the names of imports and exports: the line of the contract, imports that no plugin may have, and grants.

use crate::refusal::Refusal;
use wasmount_core::document::{AttachProtocol, Grants, Wasi};
use wasmount_core::text::listed;
use wasmount_engine::{CONTRACT_LINE, CONTRACT_PACKAGE, is_known_export, is_linked, is_of_line};

/// Most names that a sentence lists: a longer list would not be read, and each name may be 256 bytes long.
const LISTED: usize = 16;

/// Every name of the contract in the plugin must be of this host's line. A newer version of the line may add an export that this host does not know:
/// the plugin works without it, so that is a warning.
pub(crate) fn check_line(imports: &[String], exports: &[String]) -> Result<Vec<String>, Refusal> {
    for name in imports.iter().chain(exports) {
        if let Some((_, version)) = of_contract(name)
            && !is_of_line(version, CONTRACT_LINE)
        {
            return Err(Refusal::OtherLine {
                name: name.clone(),
                version: version.to_owned(),
            });
        }
    }
    let unknown = exports
        .iter()
        .filter(|name| of_contract(name).is_some_and(|(interface, _)| !is_known_export(interface)));
    Ok(unknown
        .take(LISTED)
        .map(|name| format!("the export {name} is newer than this host: it is not used"))
        .collect())
}

/// The host must provide every import.
pub(crate) fn check_imports(imports: &[String], wasi: Wasi) -> Result<(), Refusal> {
    let unknown: Vec<String> = imports
        .iter()
        .filter(|name| !is_linked(name, wasi))
        .cloned()
        .collect();
    if unknown.is_empty() {
        return Ok(());
    }
    let has_import = |prefix: &str| unknown.iter().any(|name| name.starts_with(prefix));
    let hint = if unknown.iter().all(|name| is_linked(name, Wasi::Full)) {
        "a plugin has neither files nor sockets: use `pool` and `state`; if only its language's runtime imports them, set spec.plugin.wasi to \
         `full` in the backend document: then they are there, and each use of them fails"
    } else if has_import("wasi:http/") {
        "of the network there are `outgoing-handler` and `types` of wasi:http@0.2: a plugin sends requests, and serves none"
    } else {
        "build it with the SDK of this host"
    };
    Err(Refusal::UnknownImports {
        imports: listed(&unknown, LISTED),
        hint,
    })
}

/// The interface by which a plugin sends requests, without its version.
const OUTGOING_HANDLER: &str = "wasi:http/outgoing-handler";

/// The interfaces by which a plan has disks attached, each with its protocol and the keys of a grant.
const ATTACH_INTERFACES: [(&str, AttachProtocol, &str); 3] = [
    (
        "node-iscsi",
        AttachProtocol::Iscsi,
        "portals: [\"ADDRESS:3260\"], targets: [IQN]",
    ),
    (
        "node-nvme",
        AttachProtocol::NvmeTcp,
        "addresses: [\"ADDRESS:4420\"], subsystems: [NQN]",
    ),
    (
        "node-rbd",
        AttachProtocol::Rbd,
        "monitors: [\"ADDRESS:6789\"], pools: [POOL]",
    ),
];

/// Imports that have no use under these grants, each with the lines to add: not an error, since some languages import all of their world.
pub(crate) fn ungranted_imports(imports: &[String], grants: &Grants) -> Vec<String> {
    let mut ungranted = Vec::new();
    if imports_pool(imports) && grants.pools.is_empty() {
        ungranted.push(
            "the plugin imports `pool`, but the backend document grants no pool; add, with the name that the plugin uses: \
             spec: {grants: {pools: {NAME: {path: DIRECTORY}}}}"
                .to_owned(),
        );
    }
    if imports_network(imports) && grants.network.is_empty() {
        ungranted.push(
            "the plugin sends HTTP requests, but the backend document grants no network: each request is denied; add, with the name that the \
             plugin uses as the host of its URLs: spec: {grants: {network: {NAME: {hosts: [\"HOST:443\"]}}}}"
                .to_owned(),
        );
    }
    // A plugin may have several protocols, of which its settings choose one.
    let imported = ATTACH_INTERFACES
        .iter()
        .filter(|(interface, ..)| imports_of_contract(imports, interface));
    let is_granted = |(_, protocol, _): &_| grants.attach.iter().any(|it| it.protocol == *protocol);
    if !imported.clone().any(is_granted) {
        ungranted.extend(imported.map(|(interface, protocol, names)| {
            let protocol = protocol.name();
            format!(
                "the plugin imports `{interface}`, but the backend document grants no disk that it can attach; add those of the storage system: \
                 spec: {{grants: {{attach: [{{protocol: {protocol}, {names}}}]}}}}"
            )
        }));
    }
    if imports_of_contract(imports, "nodes") && grants.nodes.is_empty() {
        ungranted.push(
            "the plugin's controller reads facts of nodes, but the backend document grants none; add those that it reads: \
             spec: {grants: {nodes: [iqn, nqn, addresses]}}"
                .to_owned(),
        );
    }
    if imports_of_contract(imports, "sealed-secrets") && grants.sealing.is_none() {
        ungranted.push(
            "the plugin seals secrets for contexts, but the backend document does not grant it; add, with a secret of at least 32 bytes: \
             spec: {grants: {sealing: {secret: NAME}}, secrets: {NAME: {file: FILE}}}"
                .to_owned(),
        );
    }
    ungranted
}

/// A warning about facts of the node without a grant. Plugins read them with some of their settings only, and a plugin without an allowed fact says so
/// in its first NodeGetInfo.
pub(crate) fn ungranted_facts(imports: &[String], grants: &Grants) -> Option<String> {
    let is_ungranted = imports_of_contract(imports, "node-facts") && grants.node_facts.is_empty();
    is_ungranted.then(|| {
        "the plugin can read facts of the node, but the backend document grants none; add those that it reads with these settings, if any: \
         spec: {grants: {nodeFacts: [instance-id, zone]}}"
            .to_owned()
    })
}

/// Whether a plugin imports the interface by which requests are sent.
pub(crate) fn imports_network(imports: &[String]) -> bool {
    let names = imports.iter().map(|name| name.split('@').next());
    names.flatten().any(|name| name == OUTGOING_HANDLER)
}

/// Whether a plugin imports the pool interface.
pub(crate) fn imports_pool(imports: &[String]) -> bool {
    imports_of_contract(imports, "pool")
}

fn imports_of_contract(imports: &[String], interface: &str) -> bool {
    let mut interfaces = imports.iter().filter_map(|name| of_contract(name));
    interfaces.any(|(imported, _)| imported == interface)
}

/// The version of a name that has none: no toolchain makes one.
const NO_VERSION: &str = "(none)";

/// Interface and version of a name of the contract.
fn of_contract(name: &str) -> Option<(&str, &str)> {
    let name = name.strip_prefix(CONTRACT_PACKAGE)?;
    Some(name.split_once('@').unwrap_or((name, NO_VERSION)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use wasmount_core::document::{StorageBackend, raw};

    fn names<const N: usize>(names: [&str; N]) -> Vec<String> {
        names.map(str::to_owned).into()
    }

    #[test]
    fn names_of_the_line_are_taken_and_a_newer_export_is_a_warning() {
        let exports = names([
            "wasmount:csi/identity@0.1.0",
            "wasmount:csi/state-migration@0.1.0",
            "wasmount:csi/replication@0.1.4",
        ]);
        let warnings = check_line(&names(["wasmount:csi/state@0.1.2"]), &exports).unwrap();
        assert_eq!(
            warnings,
            ["the export wasmount:csi/replication@0.1.4 is newer than this host: it is not used"]
        );
    }

    #[test]
    fn names_of_another_line_are_refused() {
        for (name, version) in [
            ("wasmount:csi/state@0.2.0", "0.2.0"),
            ("wasmount:csi/state@0.0.9", "0.0.9"),
            ("wasmount:csi/state@0.1.0-rc.1", "0.1.0-rc.1"),
            ("wasmount:csi/state", "(none)"),
            ("wasmount:csi/state@1.0.0", "1.0.0"),
        ] {
            for (imports, exports) in [(names([name]), vec![]), (vec![], names([name]))] {
                let refusal = check_line(&imports, &exports).unwrap_err().to_string();
                assert_eq!(
                    refusal,
                    format!(
                        "the plugin is built for version {version} of the contract ({name}), this host for version 0.1: build the plugin \
                         with the SDK of 0.1, or use a host for version {version}"
                    )
                );
            }
        }
    }

    #[test]
    fn what_the_host_has_may_be_imported() {
        let imports = ["wasmount:csi/pool@0.1.0", "wasi:io/poll@0.2.6"];
        assert!(check_imports(&names(imports), Wasi::Minimal).is_ok());
    }

    #[test]
    fn files_and_sockets_are_refused_with_the_key_that_lets_them_in() {
        let imports = names(["wasi:sockets/tcp@0.2.6", "wasi:io/poll@0.2.6"]);
        assert_eq!(
            check_imports(&imports, Wasi::Minimal)
                .unwrap_err()
                .to_string(),
            "the plugin imports what this host does not offer: wasi:sockets/tcp@0.2.6; a plugin has neither files nor sockets: use `pool` \
             and `state`; if only its language's runtime imports them, set spec.plugin.wasi to `full` in the backend document: then they \
             are there, and each use of them fails"
        );
        assert!(check_imports(&imports, Wasi::Full).is_ok());
    }

    #[test]
    fn what_no_plugin_gets_is_refused_and_listed() {
        let imports = names(["wasi:sockets/tcp@0.2.6", "wasi:io/poll@0.2.6", "env"]);
        for (wasi, listed) in [
            (Wasi::Minimal, "wasi:sockets/tcp@0.2.6, env"),
            (Wasi::Full, "env"),
        ] {
            assert_eq!(
                check_imports(&imports, wasi).unwrap_err().to_string(),
                format!(
                    "the plugin imports what this host does not offer: {listed}; build it with the SDK of this host"
                )
            );
        }
    }

    #[test]
    fn many_unknown_names_make_a_short_sentence() {
        let long = "n".repeat(256);
        let names: Vec<String> = (0..512).map(|number| format!("{number}{long}")).collect();
        let refusal = check_imports(&names, Wasi::Full).unwrap_err().to_string();
        assert!(refusal.contains(" and 496 more; "), "{refusal}");
        assert!(refusal.len() < 5000, "{}", refusal.len());
        let exports: Vec<String> = (0..512)
            .map(|number| format!("wasmount:csi/x{number}@0.1.0"))
            .collect();
        assert_eq!(check_line(&[], &exports).unwrap().len(), LISTED);
    }

    #[test]
    fn what_is_imported_but_not_granted_is_a_warning() {
        let document = json!({
            "apiVersion": "wasmount.io/v1alpha1",
            "kind": "StorageBackend",
            "metadata": { "name": "test" },
            "spec": {
                "driverName": "test.wasmount.io",
                "plugin": { "path": "plugin.wasm" },
                "grants": {
                    "pools": { "volumes": { "path": "volumes" } },
                    "network": { "array": { "hosts": ["array.example.com"] } },
                    "nodeFacts": ["zone"],
                    "attach": [
                        { "protocol": "iscsi", "portals": ["192.0.2.1:3260"], "targets": ["iqn.a"] },
                        { "protocol": "nvme-tcp", "addresses": ["192.0.2.1:4420"], "subsystems": ["nqn.a"] },
                        { "protocol": "rbd", "monitors": ["192.0.2.1:6789"], "pools": ["a"] },
                    ],
                    "nodes": ["iqn"],
                    "sealing": { "secret": "seal" },
                },
                "secrets": { "seal": { "file": "seal" } },
            },
        });
        let document: raw::Document = serde_json::from_value(document).unwrap();
        let granted = StorageBackend::try_from(document).unwrap().grants;
        for (import, warning) in [
            ("wasmount:csi/pool@0.1.0", "grants no pool"),
            ("wasi:http/outgoing-handler@0.2.6", "hosts: [\"HOST:443\"]"),
            (
                "wasmount:csi/node-iscsi@0.1.0",
                "attach: [{protocol: iscsi, portals:",
            ),
            (
                "wasmount:csi/node-nvme@0.1.0",
                "attach: [{protocol: nvme-tcp, addresses:",
            ),
            (
                "wasmount:csi/node-rbd@0.1.0",
                "attach: [{protocol: rbd, monitors:",
            ),
            ("wasmount:csi/nodes@0.1.0", "nodes: [iqn, nqn, addresses]"),
            (
                "wasmount:csi/sealed-secrets@0.1.0",
                "sealing: {secret: NAME}",
            ),
        ] {
            let warnings = ungranted_imports(&names([import]), &Grants::default());
            assert_eq!(warnings.len(), 1, "{import}");
            assert!(warnings[0].contains(warning), "{warnings:?}");
            assert!(warnings[0].contains("spec: {grants: {"), "{warnings:?}");
            assert_eq!(ungranted_imports(&names([import]), &granted), [""; 0]);
        }
        let facts = names(["wasmount:csi/node-facts@0.1.0"]);
        let warning = ungranted_facts(&facts, &Grants::default()).unwrap();
        assert!(warning.contains("nodeFacts: [instance-id, zone]"));
        assert_eq!(ungranted_facts(&facts, &granted), None);
        assert_eq!(ungranted_imports(&facts, &Grants::default()), [""; 0]);
        // One protocol of several is enough, unless the plugin has only the other one.
        let mut one = granted.clone();
        one.attach.retain(|it| it.protocol == AttachProtocol::Iscsi);
        let nvme = "wasmount:csi/node-nvme@0.1.0";
        let both = names(["wasmount:csi/node-iscsi@0.1.0", nvme]);
        assert_eq!(ungranted_imports(&both, &one), [""; 0]);
        assert_eq!(ungranted_imports(&both, &Grants::default()).len(), 2);
        assert_eq!(ungranted_imports(&names([nvme]), &one).len(), 1);
        // The types alone send nothing.
        let types = names(["wasi:http/types@0.2.6"]);
        assert_eq!(ungranted_imports(&types, &Grants::default()), [""; 0]);
    }
}
