//! The walls between crates (docs/architecture.md): the manifest of a crate is its list of permissions, and this is the list of lists.

use std::collections::BTreeSet;
use std::fs;
use xtask::command;
use xtask::workspace::Workspace;

/// A crate, the workspace crates that it may depend on, and the foreign crates that must not be anywhere below it.
struct Wall {
    name: &'static str,
    may_know: &'static [&'static str],
    must_not_know: &'static [&'static str],
}

const WALLS: [Wall; 18] = [
    Wall {
        name: "wasmount-core",
        may_know: &[],
        must_not_know: &[
            "tonic", "prost", "hyper", "wasmtime", "rustix", "redb", "kube",
        ],
    },
    Wall {
        name: "wasmount-csi",
        may_know: &["wasmount-core", "wasmount-socket"],
        must_not_know: &["wasmtime", "redb", "kube"],
    },
    Wall {
        name: "wasmount-engine",
        may_know: &["wasmount-core", "wasmount-network", "wasmount-sys"],
        must_not_know: &["tonic", "prost", "redb", "kube"],
    },
    Wall {
        name: "wasmount-versions",
        may_know: &[
            "wasmount-core",
            "wasmount-engine",
            "wasmount-network",
            "wasmount-sys",
        ],
        must_not_know: &["tonic", "prost", "redb", "kube"],
    },
    Wall {
        name: "wasmount-mount",
        may_know: &["wasmount-core", "wasmount-sys"],
        must_not_know: &["tonic", "prost", "hyper", "wasmtime", "redb", "kube"],
    },
    Wall {
        name: "wasmount-mounter",
        may_know: &["wasmount-core", "wasmount-socket"],
        must_not_know: &["tonic", "prost", "hyper", "wasmtime", "redb", "kube"],
    },
    Wall {
        name: "wasmount-network",
        may_know: &["wasmount-core"],
        must_not_know: &["tonic", "prost", "wasmtime", "redb", "kube"],
    },
    Wall {
        name: "wasmount-sys",
        may_know: &[],
        must_not_know: &["tonic", "tokio", "wasmtime", "redb", "kube"],
    },
    Wall {
        name: "wasmount-kubernetes",
        may_know: &["wasmount-core", "wasmount-socket"],
        must_not_know: &["wasmtime", "redb"],
    },
    Wall {
        name: "wasmount-socket",
        may_know: &[],
        must_not_know: &["tonic", "tokio", "wasmtime", "redb", "kube"],
    },
    Wall {
        name: "wasmount-state",
        may_know: &["wasmount-core"],
        must_not_know: &["tonic", "prost", "hyper", "wasmtime"],
    },
    Wall {
        name: "wasmount-artifact",
        may_know: &["wasmount-core", "wasmount-child"],
        must_not_know: &["tonic", "prost", "wasmtime", "redb", "kube"],
    },
    Wall {
        name: "wasmount-child",
        may_know: &["wasmount-sys"],
        must_not_know: &["tonic", "prost", "hyper", "wasmtime", "redb", "kube"],
    },
    Wall {
        name: "wasmount-control",
        may_know: &["wasmount-core"],
        must_not_know: &["tonic", "prost", "wasmtime", "redb", "kube"],
    },
    Wall {
        name: "wasmount-bench",
        may_know: &["wasmount-core", "wasmount-csi", "wasmount-socket"],
        must_not_know: &["wasmtime", "redb", "kube"],
    },
    Wall {
        name: "wasmount-guest",
        may_know: &[],
        must_not_know: &["tonic", "tokio", "wasmtime", "rustix", "redb", "kube"],
    },
    Wall {
        name: "wasmount-native-twin",
        may_know: &[
            "wasmount-core",
            "wasmount-csi",
            "wasmount-guest",
            "wasmount-mount",
            "wasmount-native-hostpath",
            "wasmount-socket",
            "wasmount-state",
            "wasmount-sys",
        ],
        must_not_know: &["wasmtime"],
    },
    Wall {
        name: "wasmount",
        may_know: &[
            "wasmount-artifact",
            "wasmount-bench",
            "wasmount-child",
            "wasmount-control",
            "wasmount-core",
            "wasmount-csi",
            "wasmount-engine",
            "wasmount-kubernetes",
            "wasmount-mount",
            "wasmount-mounter",
            "wasmount-network",
            "wasmount-socket",
            "wasmount-state",
            "wasmount-sys",
            "wasmount-versions",
        ],
        must_not_know: &["shuttle", "proptest", "tempfile"],
    },
];

/// What runs privileged, one crate a line.
const PRIVILEGED: &str = "tests/privileged-crates.txt";

/// The crates that one is built of, in the features that it asks for alone: the names in `cargo tree`.
fn built_of(name: &str) -> BTreeSet<String> {
    let workspace = Workspace::locate().unwrap();
    let arguments = [
        "tree",
        "--locked",
        "--package",
        name,
        "--edges",
        "normal",
        "--prefix",
        "none",
    ];
    let tree = command::read(workspace.plain_cargo().args(arguments)).unwrap();
    tree.lines()
        .filter_map(|line| line.split_whitespace().next())
        .filter(|each| *each != name)
        .map(str::to_owned)
        .collect()
}

/// A crate, or one of its family: `wasmtime` and `wasmtime-wasi`.
fn is_of(name: &str, family: &str) -> bool {
    name.strip_prefix(family)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

#[test]
fn a_crate_knows_only_what_its_wall_lets_through() {
    let mut breaches = Vec::new();
    for wall in WALLS {
        for known in built_of(wall.name) {
            let own = is_of(&known, "wasmount") && !wall.may_know.contains(&known.as_str());
            let foreign = wall.must_not_know.iter().any(|it| is_of(&known, it));
            if own || foreign {
                breaches.push(format!("{} knows {known}", wall.name));
            }
        }
    }
    assert!(
        breaches.is_empty(),
        "the design has walls here (docs/architecture.md): {breaches:#?}"
    );
}

#[test]
fn every_crate_of_the_host_has_a_wall() {
    let root = Workspace::locate().unwrap().root().join("host");
    let walled: BTreeSet<_> = WALLS.iter().map(|wall| wall.name.to_owned()).collect();
    for entry in fs::read_dir(root).unwrap() {
        let name = match entry.unwrap().file_name().into_string().unwrap() {
            binary if binary == "wasmount" => binary,
            library => format!("wasmount-{library}"),
        };
        assert!(
            walled.contains(&name),
            "{name} is not in the table of this file"
        );
    }
}

#[test]
fn what_runs_privileged_is_written_down() {
    let workspace = Workspace::locate().unwrap();
    let text = fs::read_to_string(workspace.root().join(PRIVILEGED)).unwrap();
    let written: BTreeSet<_> = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(str::to_owned)
        .collect();
    // The mount room, and the socket that it is reached by.
    let mut built = built_of("wasmount-mount");
    built.extend(built_of("wasmount-mounter"));
    let new: Vec<_> = built.difference(&written).collect();
    let gone: Vec<_> = written.difference(&built).collect();
    assert!(
        new.is_empty() && gone.is_empty(),
        "{PRIVILEGED} lists what runs as root; if this is meant, add {new:?} and strike out {gone:?}"
    );
}
