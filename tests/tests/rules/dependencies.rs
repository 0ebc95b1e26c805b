//! The rules of `deny.toml`, held without cargo-deny: building that takes three minutes of CPU, this takes a second. The words are
//! cargo-deny's and mean the same here; `cargo xtask deny` is the proof.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use xtask::command;
use xtask::workspace::Workspace;

/// The platform that is asked about, the first of `graph.targets`.
const PLATFORM: &str = "x86_64-unknown-linux-gnu";

struct Package {
    name: String,
    version: String,
    /// Absent for those of this repository.
    source: Option<String>,
    licence: Option<String>,
}

impl Package {
    /// `name@version`, where the version may lack its last numbers.
    fn is(&self, spec: &str) -> bool {
        let (name, version) = spec.split_once('@').unwrap_or((spec, ""));
        let rest = self.version.strip_prefix(version);
        name == self.name
            && rest
                .is_some_and(|rest| version.is_empty() || rest.is_empty() || rest.starts_with('.'))
    }
}

/// What is built of a workspace on the platform.
fn packages(manifest: &str) -> Vec<Package> {
    let workspace = Workspace::locate().unwrap();
    let arguments = [
        "metadata",
        "--locked",
        "--format-version",
        "1",
        "--filter-platform",
        PLATFORM,
    ];
    let mut cargo = workspace.plain_cargo();
    cargo.args(arguments).args(["--manifest-path", manifest]);
    let metadata: Value = serde_json::from_str(&command::read(&mut cargo).unwrap()).unwrap();
    let nodes = metadata["resolve"]["nodes"].as_array().unwrap();
    let built: BTreeSet<_> = nodes
        .iter()
        .map(|node| node["id"].as_str().unwrap())
        .collect();
    let text = |value: &Value| value.as_str().map(str::to_owned);
    metadata["packages"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|package| built.contains(package["id"].as_str().unwrap()))
        .map(|package| Package {
            name: text(&package["name"]).unwrap(),
            version: text(&package["version"]).unwrap(),
            source: text(&package["source"]),
            licence: text(&package["license"]),
        })
        .collect()
}

fn both() -> [Vec<Package>; 2] {
    ["Cargo.toml", "plugins/Cargo.toml"].map(packages)
}

fn rules() -> toml::Table {
    let path = Workspace::locate().unwrap().root().join("deny.toml");
    fs::read_to_string(path).unwrap().parse().unwrap()
}

fn strings(value: &toml::Value) -> Vec<&str> {
    value
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it.as_str().unwrap())
        .collect()
}

/// The `crate` of each entry.
fn crates(value: &toml::Value) -> Vec<&str> {
    value
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["crate"].as_str().unwrap())
        .collect()
}

/// The licences of a list, for all crates or for one.
fn licences(list: &toml::Value) -> Vec<spdx::Licensee> {
    let parsed = |it| spdx::Licensee::parse(it).unwrap();
    strings(list).into_iter().map(parsed).collect()
}

#[test]
fn every_licence_is_on_the_list() {
    let rules = rules();
    let of_all = licences(&rules["licenses"]["allow"]);
    let exceptions = rules["licenses"]["exceptions"].as_array().unwrap();
    for package in both().iter().flatten() {
        let own = exceptions
            .iter()
            .filter(|it| package.is(it["crate"].as_str().unwrap()))
            .flat_map(|it| licences(&it["allow"]));
        let allowed: Vec<_> = of_all.iter().cloned().chain(own).collect();
        let licence = package.licence.as_deref().unwrap_or_default();
        // As cargo-deny reads them: `MIT/Apache-2.0` is an old way to write OR.
        let expression = spdx::Expression::parse_mode(licence, spdx::ParseMode::LAX);
        let fits = expression.is_ok_and(|it| {
            it.evaluate(|wanted| allowed.iter().any(|each| each.satisfies(wanted)))
        });
        assert!(
            fits,
            "{} {} has the licence {licence:?}, which deny.toml does not allow",
            package.name, package.version
        );
    }
}

#[test]
fn every_package_is_ours_or_from_crates_io() {
    let rules = rules();
    let registries = strings(&rules["sources"]["allow-registry"]);
    for package in both().iter().flatten() {
        let Some(source) = &package.source else {
            continue;
        };
        let registry = source.strip_prefix("registry+").unwrap_or(source);
        assert!(
            registries.contains(&registry),
            "{} comes from {source}",
            package.name
        );
    }
}

#[test]
fn nothing_banned_is_built_in() {
    let rules = rules();
    let banned = crates(&rules["bans"]["deny"]);
    for package in both().iter().flatten() {
        assert!(
            !banned.iter().any(|spec| package.is(spec)),
            "{} is banned by deny.toml, which says why",
            package.name
        );
    }
}

#[test]
fn nothing_is_built_in_twice_without_a_reason() {
    let rules = rules();
    let skipped = crates(&rules["bans"]["skip"]);
    for packages in both() {
        let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for package in packages
            .iter()
            .filter(|it| !skipped.iter().any(|spec| it.is(spec)))
        {
            versions
                .entry(&package.name)
                .or_default()
                .push(&package.version);
        }
        versions.retain(|_, versions| versions.len() > 1);
        assert!(
            versions.is_empty(),
            "give a reason in `bans.skip` of deny.toml: {versions:#?}"
        );
    }
}

#[test]
fn no_reason_outlives_what_it_excuses() {
    let rules = rules();
    let both = both();
    let skipped = crates(&rules["bans"]["skip"]);
    let excepted = crates(&rules["licenses"]["exceptions"]);
    for spec in skipped.into_iter().chain(excepted) {
        assert!(
            both.iter().flatten().any(|package| package.is(spec)),
            "{spec} is not built in any more: strike it out in deny.toml"
        );
    }
}
