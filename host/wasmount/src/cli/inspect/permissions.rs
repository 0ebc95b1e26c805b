//! Imports as the permissions that a component requests.

use serde::Serialize;
use std::collections::BTreeSet;
use wasmount_core::document::Wasi;
use wasmount_engine::{CONTRACT_PACKAGE, is_linked};

/// A permission that a component requests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Permission {
    /// Its name, one word.
    pub(super) name: &'static str,
    /// What it allows here.
    pub(super) means: &'static str,
    /// The imports that request it.
    pub(super) imports: Vec<String>,
}

/// Prefixes of imports without their versions, and their permissions. The first match counts.
const MEANINGS: [(&str, &str, &str); 22] = [
    (
        "wasmount:csi/pool",
        "pools",
        "makes, copies and removes trees and images in the pools of `grants.pools`, and nowhere else",
    ),
    (
        "wasmount:csi/state",
        "records",
        "keeps records of its own in the host's store, up to `limits.stateBytes`",
    ),
    (
        "wasmount:csi/secrets",
        "secrets",
        "reads secrets of its document and of the request at hand, by name",
    ),
    (
        "wasmount:csi/node-plan",
        "mounts",
        "says what a volume is; the host mounts it, if `grants` allows it",
    ),
    (
        "wasmount:csi/call",
        "call",
        "reads its settings and its time, and writes to the log",
    ),
    (
        "wasmount:csi/session",
        "sessions",
        "keeps what its logins yield in the host's memory",
    ),
    (
        "wasmount:csi/node-facts",
        "facts",
        "reads the facts of the node that `grants.nodeFacts` names, such as which instance it is",
    ),
    (
        "wasmount:csi/node-iscsi",
        "iscsi",
        "says which disk of an iSCSI target a volume is; the host attaches it, if `grants.attach` allows it",
    ),
    (
        "wasmount:csi/node-nvme",
        "nvme",
        "says which namespace of an NVMe subsystem a volume is; the host attaches it, if `grants.attach` allows it",
    ),
    (
        "wasmount:csi/node-rbd",
        "rbd",
        "says which image of a Ceph cluster a volume is; the host maps it, if `grants.attach` allows it",
    ),
    (
        "wasmount:csi/node-encryption",
        "encryption",
        "says which secret is the passphrase of a block volume; the host encrypts it, and the plugin needs no access to the value",
    ),
    (
        "wasmount:csi/nodes",
        "nodes",
        "reads the facts of every node that `grants.nodes` names, such as the name of its initiator",
    ),
    (
        "wasmount:csi/sealed-secrets",
        "sealing",
        "seals secrets of volumes for their contexts by the secret of `grants.sealing`; the host of the node opens them",
    ),
    ("wasmount:csi/types", "", ""),
    (
        "wasi:http/",
        "network",
        "sends HTTP requests to the systems of `grants.network`, and to no other",
    ),
    (
        "wasi:filesystem/",
        "files",
        "names files: there with `plugin.wasi: full` only, and each use of them fails",
    ),
    (
        "wasi:sockets/",
        "sockets",
        "names sockets: there with `plugin.wasi: full` only, and each use of them fails",
    ),
    ("wasi:clocks/", "clocks", "reads the time"),
    ("wasi:random/", "random", "reads random numbers"),
    (
        "wasi:cli/environment",
        "environment",
        "reads arguments and variables: there are none",
    ),
    (
        "wasi:cli/",
        "output",
        "writes to standard output and standard error: lines of the host's log",
    ),
    ("wasi:io/", "", ""),
];

/// The permission of imports that no host offers.
const UNKNOWN: (&str, &str) = ("unknown", "is not offered by this host, so it is rejected");

/// The permissions of imports, in the order of the table.
pub(super) fn permissions(imports: &[String]) -> Vec<Permission> {
    let mut permissions: Vec<Permission> = Vec::new();
    let order = MEANINGS.iter().map(|(_, name, means)| (*name, *means));
    for (name, means) in order.chain([UNKNOWN]).filter(|(name, _)| !name.is_empty()) {
        let found = imports.iter().filter(|import| meaning(import).0 == name);
        let imports: Vec<_> = found.cloned().collect();
        if !imports.is_empty() {
            permissions.push(Permission {
                name,
                means,
                imports,
            });
        }
    }
    permissions
}

/// What the document must say.
pub(super) fn needs(imports: &[String]) -> Vec<&'static str> {
    let has = |is_such: fn(&str) -> bool| imports.iter().any(|import| is_such(import));
    let asks_for = |name: &str| imports.iter().any(|import| meaning(import).0 == name);
    let full = "`spec: {plugin: {wasi: full}}`";
    let network = "`spec: {grants: {network: {NAME: {hosts: [\"HOST:443\"]}}}}`, for each system by the name that the plugin gives it";
    let facts =
        "`spec: {grants: {nodeFacts: [instance-id, zone]}}`, of which those that the plugin reads";
    let iscsi = "`spec: {grants: {attach: [{protocol: iscsi, portals: [\"ADDRESS:3260\"], targets: [IQN]}]}}`";
    let nvme = "`spec: {grants: {attach: [{protocol: nvme-tcp, addresses: [\"ADDRESS:4420\"], subsystems: [NQN]}]}}`";
    let rbd = "`spec: {grants: {attach: [{protocol: rbd, monitors: [\"ADDRESS:6789\"], pools: [POOL]}]}}`";
    let nodes =
        "`spec: {grants: {nodes: [iqn, nqn, addresses]}}`, of which those that the plugin reads";
    let sealing = "`spec: {grants: {sealing: {secret: NAME}}, secrets: {NAME: {file: FILE}}}`, a secret of at least 32 bytes";
    [
        (full, has(needs_full_wasi)),
        (network, has(sends_requests)),
        (facts, asks_for("facts")),
        (iscsi, asks_for("iscsi")),
        (nvme, asks_for("nvme")),
        (rbd, asks_for("rbd")),
        (nodes, asks_for("nodes")),
        (sealing, asks_for("sealing")),
    ]
    .into_iter()
    .filter_map(|(need, is_needed)| is_needed.then_some(need))
    .collect()
}

fn needs_full_wasi(import: &str) -> bool {
    !is_linked(import, Wasi::Minimal) && is_linked(import, Wasi::Full)
}

fn sends_requests(import: &str) -> bool {
    meaning(import).0 == "network" && import.contains("/outgoing-handler@")
}

/// Versions of the contract that a component names.
pub(super) fn contract_versions(imports: &[String], exports: &[String]) -> Vec<String> {
    let names = imports.iter().chain(exports);
    let versions = names.filter_map(|name| {
        let (_, version) = name.strip_prefix(CONTRACT_PACKAGE)?.split_once('@')?;
        Some(version.to_owned())
    });
    let versions: BTreeSet<_> = versions.collect();
    versions.into_iter().collect()
}

fn meaning(import: &str) -> (&'static str, &'static str) {
    let interface = import.split('@').next().unwrap_or(import);
    let fits = |beginning: &str| match beginning.strip_suffix('/') {
        Some(_) => interface.starts_with(beginning),
        None => interface == beginning,
    };
    let mut known = MEANINGS.iter().filter(|(beginning, ..)| fits(beginning));
    known
        .next()
        .map_or(UNKNOWN, |(_, name, means)| (*name, *means))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(imports: &[&str]) -> Vec<(&'static str, usize)> {
        let imports: Vec<_> = imports.iter().map(|import| (*import).to_owned()).collect();
        permissions(&imports)
            .into_iter()
            .map(|it| (it.name, it.imports.len()))
            .collect()
    }

    #[test]
    fn imports_are_shown_as_permissions() {
        assert_eq!(
            names(&[
                "wasi:cli/stderr@0.2.6",
                "wasi:cli/environment@0.2.6",
                "wasi:cli/exit@0.2.6",
                "wasi:io/poll@0.2.6",
                "wasmount:csi/types@0.1.0",
                "wasmount:csi/pool@0.1.0",
            ]),
            [("pools", 1), ("environment", 1), ("output", 2)]
        );
    }

    #[test]
    fn imports_that_the_host_lacks_are_shown() {
        assert_eq!(
            names(&[
                "env",
                "wasi:http/outgoing-handler@0.2.6",
                "wasmount:csi/poolish@0.1.0"
            ]),
            [("network", 1), ("unknown", 2)]
        );
    }

    #[test]
    fn secret_references_need_a_known_kind() {
        let needs = |import: &str| needs(&[import.to_owned()]).len();
        assert_eq!(needs("wasi:filesystem/types@0.2.6"), 1);
        assert_eq!(needs("wasi:io/poll@0.2.6"), 0);
        assert_eq!(needs("wasi:http/types@0.2.6"), 0);
        assert_eq!(needs("wasi:http/outgoing-handler@0.2.6"), 1);
        assert_eq!(needs("wasmount:csi/node-facts@0.1.0"), 1);
        assert_eq!(needs("wasmount:csi/node-iscsi@0.1.0"), 1);
        assert_eq!(needs("wasmount:csi/node-nvme@0.1.0"), 1);
        assert_eq!(needs("wasmount:csi/nodes@0.1.0"), 1);
        assert_eq!(needs("wasmount:csi/node-encryption@0.1.0"), 0);
        assert_eq!(needs("wasmount:csi/sealed-secrets@0.1.0"), 1);
        assert_eq!(needs("wasmount:csi/node-plan@0.1.0"), 0);
    }

    #[test]
    fn versions_of_the_contract_are_shown_once() {
        let named = |name: &str| name.to_owned();
        let imports = [
            named("wasmount:csi/call@0.1.0"),
            named("wasi:io/poll@0.2.6"),
        ];
        let exports = [
            named("wasmount:csi/identity@0.1.0"),
            named("wasmount:csi/x@0.2.0"),
        ];
        assert_eq!(contract_versions(&imports, &exports), ["0.1.0", "0.2.0"]);
    }
}
