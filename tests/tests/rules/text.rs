//! How files look: found by reading them, so that a rule costs no tool.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use xtask::workspace::Workspace;

/// A file past this has two subjects.
const LINES_OF_A_FILE: usize = 400;

/// `host/sys`, the only crate with unsafe code: as much as one reads at a sitting, 12 files of some 40 lines.
const LINES_OF_SYS: usize = 510;

/// Crates that cannot forbid unsafe code: the one that is there for it, and the SDK, whose generated bindings hold some.
const NOT_FORBIDDEN: [&str; 2] = ["host/sys", "guest-sdk"];

/// `main.rs` of the host names the parts and joins them, no more.
const LINES_OF_MAIN: usize = 60;

/// The page that shows a whole driver.
const TUTORIAL: &str = "docs/first-backend.md";

/// What the README promises of a driver.
const LINES_OF_DRIVER: usize = 80;

/// What docs/plugins.md promises of a driver with all that CSI offers: every line but tests.
const LINES_OF_HOSTPATH: usize = 400;

/// What docs/network.md promises of a driver of an array on the network: lines of code.
const LINES_OF_ARRAY: usize = 200;

/// The fewest tests that the sources hold: fewer were misread.
const TESTS: usize = 2_000;

/// A test name: subject, verb, condition.
const CHARACTERS_OF_A_TEST_NAME: usize = 60;

/// How a test of the cluster begins: it is a row of a table, and has no attribute.
const TEST_OF_THE_CLUSTER: &str = "pub(crate) async fn privileged_";

/// Never looked into: what is built, and git's own.
const NOT_OURS: [&str; 2] = ["target", ".git"];

fn root() -> PathBuf {
    Workspace::locate().unwrap().root().to_owned()
}

/// All files below a directory, symbolic links not followed.
fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name();
        let kind = entry.file_type().unwrap();
        // In a worktree `.git` is a file.
        if NOT_OURS.iter().any(|it| *it == name) {
            continue;
        }
        if kind.is_dir() {
            found.extend(files(&entry.path()));
        } else if kind.is_file() {
            found.push(entry.path());
        }
    }
    found
}

/// All Rust sources with their text.
fn sources(directory: &Path) -> Vec<(PathBuf, String)> {
    files(directory)
        .into_iter()
        .filter(|path| path.extension().is_some_and(|it| it == "rs"))
        .map(|path| {
            let text = fs::read_to_string(&path).unwrap();
            (path, text)
        })
        .collect()
}

/// Those that a rule is broken by.
fn which(
    texts: impl IntoIterator<Item = (PathBuf, String)>,
    breaks: impl Fn(&Path, &str) -> bool,
) -> Vec<PathBuf> {
    texts
        .into_iter()
        .filter(|(path, text)| breaks(path, text))
        .map(|(path, _)| path)
        .collect()
}

fn has_line(path: &Path, wanted: &str) -> bool {
    let text = fs::read_to_string(path).unwrap();
    text.lines().any(|line| line == wanted)
}

/// Lines that are neither empty, nor comment, nor test.
fn code_lines(text: &str) -> usize {
    text.lines()
        .take_while(|line| !line.starts_with("#[cfg(test)]"))
        .map(str::trim_start)
        .filter(|line| !line.is_empty() && !line.starts_with("//"))
        .count()
}

/// As a document spells a field.
fn camel_case(field: &str) -> String {
    let mut words = field.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |key, word| {
        let (initial, rest) = word.split_at(1);
        key + &initial.to_uppercase() + rest
    })
}

#[test]
fn every_file_says_first_what_it_is() {
    let silent = which(sources(&root()), |_, text| !text.starts_with("//! "));
    assert!(
        silent.is_empty(),
        "open these with `//!` and their subject: {silent:#?}"
    );
}

#[test]
fn no_file_has_two_subjects() {
    let long = which(sources(&root()), |_, text| {
        text.lines().count() > LINES_OF_A_FILE
    });
    assert!(
        long.is_empty(),
        "over {LINES_OF_A_FILE} lines, split by subject: {long:#?}"
    );
}

#[test]
fn the_plugin_with_all_of_csi_is_as_short_as_promised() {
    let parts = sources(&root().join("plugins/hostpath/src"));
    let is_test = |path: &Path| path.components().any(|part| part.as_os_str() == "tests");
    let lines: usize = parts
        .iter()
        .filter(|(path, _)| !is_test(path) && !path.ends_with("tests.rs"))
        .map(|(_, text)| text.lines().count())
        .sum();
    assert!(
        (1..=LINES_OF_HOSTPATH).contains(&lines),
        "plugins/hostpath has {lines} lines: put what others need too into the SDK"
    );
}

#[test]
fn the_plugin_of_an_array_is_as_short_as_promised() {
    let source = root().join("plugins/array/src/lib.rs");
    let lines = code_lines(&fs::read_to_string(source).unwrap());
    assert!((1..=LINES_OF_ARRAY).contains(&lines), "{lines} lines");
}

/// The names of the tests in a source.
fn test_names(text: &str) -> impl Iterator<Item = &str> {
    let tests = text.split("\n").scan(false, |is_test, line| {
        let line = line.trim_start();
        let of_cluster = line.starts_with(TEST_OF_THE_CLUSTER);
        let line = line.trim_start_matches("pub(crate) ");
        let name = line.trim_start_matches("async ").strip_prefix("fn ");
        let name = name.and_then(|rest| rest.split('(').next());
        let found = name.filter(|_| *is_test || of_cluster);
        *is_test = match line.starts_with('#') {
            true => *is_test || line.starts_with("#[test") || line.starts_with("#[tokio::test"),
            false => false,
        };
        Some(found)
    });
    tests.flatten()
}

#[test]
fn test_names_have_at_most_sixty_characters() {
    let sources = sources(&root());
    let names: Vec<_> = sources
        .iter()
        .flat_map(|(_, text)| test_names(text))
        .collect();
    assert!(names.len() > TESTS, "only {} tests are found", names.len());
    let long: Vec<_> = names
        .into_iter()
        .filter(|name| name.len() > CHARACTERS_OF_A_TEST_NAME)
        .collect();
    assert!(
        long.is_empty(),
        "name these by subject, verb and condition: {long:#?}"
    );
}

#[test]
fn names_of_tests_alone_are_found() {
    let text = "#[test]\n#[ignore = \"slow\"]\nfn a() {}\n#[tokio::test(flavor = \"x\")]\n    async fn b() {\nfn c() {\n";
    assert_eq!(test_names(text).collect::<Vec<_>>(), ["a", "b"]);
    let text = "pub(crate) async fn privileged_a(\npub(crate) async fn b() {\n";
    assert_eq!(test_names(text).collect::<Vec<_>>(), ["privileged_a"]);
}

#[test]
fn no_module_is_called_mod() {
    let unnamed = which(sources(&root()), |path, _| path.ends_with("mod.rs"));
    assert!(
        unnamed.is_empty(),
        "name these after their subject: {unnamed:#?}"
    );
}

#[test]
fn every_crate_forbids_unsafe_code_but_those_that_need_it() {
    let root = root();
    // A guest should be short: its workspace forbids it for all that take its lints.
    let guests = root.join("plugins");
    assert!(has_line(
        &guests.join("Cargo.toml"),
        "unsafe_code = \"forbid\""
    ));
    let mut crates = 0;
    let manifests = files(&root)
        .into_iter()
        .filter(|it| it.ends_with("Cargo.toml"));
    for source in manifests.map(|path| path.with_file_name("src")) {
        let roots = ["lib.rs", "main.rs"].map(|name| source.join(name));
        for file in roots.iter().filter(|file| file.is_file()) {
            crates += 1;
            let forbids = has_line(file, "#![forbid(unsafe_code)]") || file.starts_with(&guests);
            let excepted = NOT_FORBIDDEN
                .iter()
                .any(|it| source.starts_with(root.join(it)));
            assert_ne!(
                forbids,
                excepted,
                "{} and `forbid(unsafe_code)`",
                file.display()
            );
        }
    }
    // An empty walk must not pass for obedience.
    assert!(crates >= 12, "found only {crates} crates");
}

#[test]
fn every_crate_takes_the_lints_of_its_workspace() {
    let deaf: Vec<_> = files(&root())
        .into_iter()
        .filter(|path| path.ends_with("Cargo.toml") && has_line(path, "[package]"))
        .filter(|path| {
            !fs::read_to_string(path)
                .unwrap()
                .contains("[lints]\nworkspace = true\n")
        })
        .collect();
    assert!(deaf.is_empty(), "add `[lints] workspace = true`: {deaf:#?}");
}

#[test]
fn unsafe_code_is_only_in_sys() {
    let root = root();
    let words = [
        "unsafe {",
        "unsafe fn",
        "unsafe impl",
        "unsafe extern",
        "#[unsafe(",
    ];
    // Bytes that no program reads, and in a guest.
    let who_made_it = r#"#[unsafe(link_section = "wasmount:sdk")]"#;
    let others = sources(&root)
        .into_iter()
        .filter(|(path, _)| !path.starts_with(root.join("host/sys")) && !path.ends_with(file!()));
    let writing = which(others, |_, text| {
        text.lines()
            .filter(|line| !line.trim_start().starts_with("//") && line.trim() != who_made_it)
            .any(|line| words.iter().any(|word| line.contains(word)))
    });
    assert!(writing.is_empty(), "move it to host/sys: {writing:#?}");
}

#[test]
fn unsafe_code_can_be_read_at_a_sitting() {
    let lines: usize = sources(&root().join("host/sys/src"))
        .iter()
        .filter(|(path, _)| !path.ends_with("tests.rs"))
        .map(|(_, text)| code_lines(text))
        .sum();
    assert!(lines <= LINES_OF_SYS, "host/sys has {lines} lines of code");
}

#[test]
fn main_only_joins_the_parts() {
    let text = fs::read_to_string(root().join("host/wasmount/src/main.rs")).unwrap();
    assert!(text.lines().count() < LINES_OF_MAIN);
}

#[test]
fn the_directory_driver_is_as_short_as_promised() {
    let text = fs::read_to_string(root().join("plugins/directory/src/lib.rs")).unwrap();
    let lines = text.lines().count();
    assert!(
        lines <= LINES_OF_DRIVER,
        "plugins/directory has {lines} lines"
    );
}

#[test]
fn the_tutorial_shows_the_driver_and_its_document_as_they_are() {
    let read = |path: &str| fs::read_to_string(root().join(path)).unwrap();
    let page = read(TUTORIAL);
    for (language, path) in [
        ("rust", "plugins/directory/src/lib.rs"),
        ("yaml", "plugins/directory/backend.yaml"),
    ] {
        let shown = format!("```{language}\n{}```", read(path));
        assert!(page.contains(&shown), "copy {path} into {TUTORIAL} again");
    }
}

#[test]
fn every_key_of_a_document_is_explained() {
    let read = |path: &str| fs::read_to_string(root().join(path)).unwrap();
    // The example is no explanation.
    let page: String = read("docs/backend.md").split("```").step_by(2).collect();
    let words: BTreeSet<_> = page
        .split('`')
        .skip(1)
        .step_by(2)
        .flat_map(|keys| keys.split(|c: char| !c.is_ascii_alphanumeric()))
        .collect();
    let shape: String = [
        "raw",
        "raw/grants",
        "raw/limits",
        "raw/network",
        "raw/plugin",
        "raw/rollout",
    ]
    .map(|file| read(&format!("host/core/src/document/{file}.rs")))
    .concat();
    let fields: Vec<_> = shape
        .lines()
        .filter_map(|line| line.strip_prefix("    pub "))
        .filter_map(|line| line.split_once(':'))
        .map(|(field, _)| field)
        // A function has spaces before its first colon.
        .filter(|field| !field.contains(' '))
        .collect();
    // An empty list must not pass for a whole page.
    assert!(fields.contains(&"host_call_bytes"), "{fields:?}");
    for field in fields {
        let key = match field {
            "fs_type" => "type".to_owned(),
            field => camel_case(field),
        };
        assert!(
            words.contains(key.as_str()),
            "explain `{key}` in docs/backend.md"
        );
    }
}

#[test]
fn no_file_names_a_path_of_a_developer_machine() {
    // In parts, so that this file does not name them.
    let paths = [["/wo", "rk/"], ["/ro", "ot/."]].map(|parts| parts.concat());
    let texts = files(&root()).into_iter().map(|path| {
        let text = String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned();
        (path, text)
    });
    let naming = which(texts, |_, text| paths.iter().any(|it| text.contains(it)));
    assert!(naming.is_empty(), "these name {paths:?}: {naming:#?}");
}

#[test]
fn there_is_one_copy_of_the_contract() {
    let root = root();
    assert_eq!(
        fs::read_link(root.join("wit")).unwrap(),
        Path::new("guest-sdk/wit")
    );
    // Golden guests keep the text that they were made for.
    let copies: Vec<_> = files(&root)
        .into_iter()
        .filter(|path| path.extension().is_some_and(|it| it == "wit"))
        .filter(|path| !path.starts_with(root.join("tests/golden")))
        .filter(|path| {
            fs::read_to_string(path)
                .unwrap()
                .contains("package wasmount:csi@")
        })
        .collect();
    assert_eq!(copies, [root.join("guest-sdk/wit/wasmount.wit")]);
}
