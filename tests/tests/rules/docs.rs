//! What the documents name exists: links, paths of the tree, and the packages of the image.

use std::fs;
use std::path::{Component, Path, PathBuf};
use xtask::image::root_filesystem::PACKAGES;
use xtask::tools::{CSI_SANITY_5_4, CSI_SANITY_5_6, HELM, KUBERNETES, SIDECARS};
use xtask::workspace::Workspace;

/// Documents at the top of the tree; the others lie in `docs/`.
const PAGES: [&str; 4] = [
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
];
/// A word between backquotes that begins so is a path of the tree.
const TOP_FOLDERS: [&str; 8] = [
    "host/",
    "tests/",
    "plugins/",
    "docs/",
    "deploy/",
    "xtask/",
    "guest-sdk/",
    ".ci/",
];
/// kubelet's own folder of the same name, below its directory.
const OF_KUBELET: &str = "plugins/kubernetes.io/";
/// A word that holds one of these is a pattern or a command, not a path.
const NO_PATH: [char; 8] = [' ', '*', '<', '>', '{', '…', '$', '='];
/// The fewest paths and links that the pages hold together: fewer were misread.
const NAMED: usize = 100;

fn pages(root: &Path) -> Vec<PathBuf> {
    let docs = fs::read_dir(root.join("docs")).unwrap();
    let docs = docs.map(|entry| entry.unwrap().path());
    let docs = docs.filter(|path| path.extension().is_some_and(|it| it == "md"));
    PAGES
        .map(|page| root.join(page))
        .into_iter()
        .chain(docs)
        .collect()
}

/// Targets of links, relative to the page.
fn links(text: &str) -> impl Iterator<Item = &str> {
    text.split("](").skip(1).filter_map(|rest| {
        let (target, _) = rest.split_once(')')?;
        let path = target.split('#').next().unwrap_or_default();
        (!path.is_empty() && !path.contains("://")).then_some(path)
    })
}

/// Paths of the tree that stand between backquotes outside of blocks of code.
fn paths(text: &str) -> Vec<String> {
    let prose: String = text.split("```").step_by(2).collect();
    let words = prose.split('`').skip(1).step_by(2);
    words
        .map(|word| word.split("::").next().unwrap_or_default())
        .filter(|word| TOP_FOLDERS.iter().any(|folder| word.starts_with(folder)))
        .filter(|word| !word.contains(NO_PATH) && !word.starts_with(OF_KUBELET))
        .map(str::to_owned)
        .collect()
}

/// `docs/../host` is `host`, whether or not `docs` exists.
fn normalized(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut all, part| {
        if part == Component::ParentDir {
            all.pop();
        } else {
            all.push(part);
        }
        all
    })
}

#[test]
fn every_path_that_a_page_names_exists() {
    let root = Workspace::locate().unwrap().root().to_owned();
    let mut named = 0;
    let mut missing = Vec::new();
    for page in pages(&root) {
        let text = fs::read_to_string(&page).unwrap();
        let linked = links(&text).map(|link| normalized(&page.with_file_name(link)));
        for path in linked.chain(paths(&text).into_iter().map(|path| root.join(path))) {
            named += 1;
            if !path.exists() {
                missing.push((page.clone(), path));
            }
        }
    }
    assert!(named >= NAMED, "found only {named}");
    assert!(missing.is_empty(), "named and not there: {missing:#?}");
}

#[test]
fn links_and_paths_are_found_in_prose() {
    let text =
        "[a](b.md#c) [d](https://e) `host/core/x.rs::f` `host/*` `cargo xtask` ```\n`host/no`\n```";
    assert_eq!(links(text).collect::<Vec<_>>(), ["b.md"]);
    assert_eq!(paths(text), ["host/core/x.rs"]);
}

#[test]
fn the_containerfile_installs_the_packages_of_the_image() {
    let root = Workspace::locate().unwrap().root().to_owned();
    let text = fs::read_to_string(root.join("deploy/Containerfile")).unwrap();
    let (_, list) = text.split_once("--no-install-recommends").unwrap();
    let (list, _) = list.split_once("&&").unwrap();
    let installed: Vec<_> = list
        .split(['\\', '\n', ' '])
        .filter(|it| !it.is_empty())
        .collect();
    assert_eq!(installed, PACKAGES);
}

#[test]
fn the_containerfile_builds_each_backend_of_the_image() {
    let workspace = Workspace::locate().unwrap();
    let text = fs::read_to_string(workspace.root().join("deploy/Containerfile")).unwrap();
    let built = text.split("--package ").skip(2);
    let built: Vec<_> = built
        .filter_map(|it| it.split_whitespace().next())
        .collect();
    let is_backend = |path: &PathBuf| path.join("backend.yaml").is_file();
    // Those in other languages are examples, which the image does not have.
    let is_of_rust = |path: &PathBuf| path.join("Cargo.toml").is_file();
    let mut backends: Vec<_> = fs::read_dir(workspace.plugins())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| is_backend(path) && is_of_rust(path))
        .map(|path| path.file_name().unwrap().to_str().unwrap().to_owned())
        .collect();
    backends.sort_unstable();
    assert_eq!(built, backends);
}

#[test]
fn the_tested_versions_are_those_of_the_tools() {
    let root = Workspace::locate().unwrap().root().to_owned();
    let text = fs::read_to_string(root.join("docs/compatibility.md")).unwrap();
    let (_, tested) = text.split_once("## Tested").unwrap();
    let version_of = |what: &str| {
        let mut rows = tested.lines();
        let row = rows.find_map(|row| row.strip_prefix(&format!("| {what} | ")));
        row.unwrap_or_else(|| panic!("no row for {what}"))
    };
    let kubernetes = format!("{}:", KUBERNETES.version);
    assert!(version_of("Kubernetes").starts_with(&kubernetes));
    assert_eq!(version_of("Helm"), format!("{} |", HELM.version));
    let sidecars = SIDECARS.map(|it| it.version).join(", ");
    let row = "external-provisioner, -attacher, -resizer, -snapshotter";
    assert!(version_of(row).starts_with(&format!("{sidecars},")));
    for tool in [CSI_SANITY_5_4, CSI_SANITY_5_6] {
        let (short, _) = tool.version.rsplit_once('.').unwrap();
        assert!(version_of("CSI").contains(&format!("csi-sanity {short}")));
    }
}
