//! What an administrator gets wrong, as the real program says it: one line with file, line, key and the nearest right word, and an exit code
//! that tells "never works" from "does not work here".
//!
//! Each flag and each key by itself is tested beside the code; here the documents that the plugins bring, and rights.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;
use wasmount_tests::root::needs_root;
use xtask::command;
use xtask::workspace::Workspace;

/// Wrong flags or documents (sysexits.h).
const USAGE: Option<i32> = Some(64);

/// The node lacks something.
const FAILURE: Option<i32> = Some(1);

/// A user without any right.
const NOBODY: &str = "65534";

/// A folder in which the program could serve, with a document.
struct Folder(TempDir);

impl Folder {
    fn with(document: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("backend.yaml"), document).unwrap();
        fs::create_dir(folder.path().join("kubelet")).unwrap();
        Self(folder)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// `wasmount serve` over it, started by another program if need be.
    fn serve(&self, starter: &[&str], more: &[&str]) -> Output {
        let program = Workspace::locate().unwrap().host_program();
        let mut command = Command::new(
            starter
                .first()
                .map_or(program.as_os_str(), |it| it.as_ref()),
        );
        if let Some(rest) = starter.get(1..) {
            command.args(rest).arg(&program);
        }
        command
            .arg("serve")
            .arg("--backend")
            .arg(self.path().join("backend.yaml"));
        for (flag, name) in [
            ("--data-dir", "data"),
            ("--run-dir", "run"),
            ("--socket-dir", "sockets"),
            ("--kubelet-dir", "kubelet"),
        ] {
            command.arg(flag).arg(self.path().join(name));
        }
        command
            .args(["--listen-health", "off", "--node-id", "here"])
            .args(more);
        command::try_read(&mut command).unwrap()
    }
}

/// Exit code and what was said, with the folder's path left out.
fn said(folder: &Folder, output: &Output) -> (Option<i32>, String) {
    let text = String::from_utf8_lossy(&output.stderr);
    let text = text.replace(&format!("{}/", folder.path().display()), "");
    (output.status.code(), text)
}

fn plugins_document(plugin: &str) -> String {
    let path = Workspace::locate().unwrap().backend_document(plugin);
    fs::read_to_string(path).unwrap()
}

/// The example of the page on documents.
fn pages_document() -> String {
    let path = Workspace::locate().unwrap().root().join("docs/backend.md");
    let page = fs::read_to_string(path).unwrap();
    let (_, rest) = page.split_once("```yaml\n").unwrap();
    rest.split_once("```").unwrap().0.to_owned()
}

#[test]
fn a_typo_in_a_document_names_the_nearest_key() {
    let document = plugins_document("directory");
    for (right, slip, line) in [
        (
            "driverName:",
            "driver:",
            "6: spec.driver: unknown key; did you mean `driverName`?",
        ),
        (
            "pools:",
            "pool:",
            "8: spec.grants.pool: unknown key; did you mean `pools`?",
        ),
        (
            "plugin: { path:",
            "plugin: { paht:",
            "7: spec.plugin.paht: unknown key; did you mean `path`?",
        ),
        (
            "wasmount.io/v1alpha1",
            "wasmount.io/v1",
            "2: apiVersion: this host reads `wasmount.io/v1alpha1` only",
        ),
        (
            "path: pools/directory",
            "path: ../pools",
            "8: spec.grants.pools.volumes.path: must not contain `..`",
        ),
    ] {
        assert!(document.contains(right), "{right}");
        let folder = Folder::with(&document.replace(right, slip));
        let output = folder.serve(&[], &["--role", "controller"]);
        let expected = format!("wasmount: backend.yaml:{line}\n");
        assert_eq!(said(&folder, &output), (USAGE, expected), "{slip}");
        assert!(
            !folder.path().join("data").exists(),
            "something was touched"
        );
    }
}

#[test]
fn every_document_of_plugins_and_docs_is_valid() {
    let plugins = Workspace::locate().unwrap().root().join("plugins");
    let names: Vec<_> = fs::read_dir(plugins)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.join("backend.yaml").is_file())
        .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
        .collect();
    assert!(names.iter().any(|name| name == "directory"), "{names:?}");
    let mut documents: Vec<_> = names
        .into_iter()
        .map(|name| (plugins_document(&name), name))
        .collect();
    documents.push((pages_document(), "docs/backend.md".to_owned()));
    for (document, name) in documents {
        let folder = Folder::with(&document);
        // What comes after the documents: without it the program would serve.
        let output = folder.serve(&[], &["--role", "node", "--path-root", "/nowhere"]);
        let expected = "wasmount: --path-root /nowhere: is not an existing directory; make it first, or name another\n";
        assert_eq!(
            said(&folder, &output),
            (USAGE, expected.to_owned()),
            "{name}"
        );
    }
}

#[test]
fn steps_of_a_rollout_are_refused_in_a_file_of_a_host() {
    let steps = "  rollout: { steps: [{ percent: 10, pause: 10m }] }\n";
    let document = format!("{}{steps}", plugins_document("directory"));
    let folder = Folder::with(&document);
    let output = folder.serve(&[], &["--role", "controller"]);
    let expected = "wasmount: backend.yaml: spec.rollout: is for an object of the API server only: a file is served by one host; remove the key, or serve the object with --storage-backends\n";
    assert_eq!(said(&folder, &output), (USAGE, expected.to_owned()));
    // Steps that are wrong are told first.
    let folder = Folder::with(&document.replace("10,", "0,"));
    let output = folder.serve(&[], &["--role", "controller"]);
    let (code, words) = said(&folder, &output);
    assert_eq!(code, USAGE);
    assert!(
        words.contains("spec.rollout.steps[0].percent: must be between 1 and 100"),
        "{words}"
    );
}

#[test]
fn privileged_missing_mount_rights_give_one_line_of_advice() {
    needs_root();
    let folder = Folder::with(&plugins_document("directory"));
    // Everybody's, so that only the right is missing.
    for directory in [folder.path(), &folder.path().join("kubelet")] {
        fs::set_permissions(directory, fs::Permissions::from_mode(0o777)).unwrap();
    }
    let nobody = [
        "setpriv",
        "--reuid",
        NOBODY,
        "--regid",
        NOBODY,
        "--clear-groups",
        "--",
    ];
    for role in ["all", "node"] {
        let (code, text) = said(&folder, &folder.serve(&nobody, &["--role", role]));
        assert_eq!(code, FAILURE, "{text}");
        assert_eq!(text.lines().count(), 1, "{text}");
        let begin = format!(
            "wasmount: role `{role}` mounts volumes and needs the capability CAP_SYS_ADMIN"
        );
        assert!(text.starts_with(&begin), "{text}");
        let end = "or serve with --mounter or --role controller\n";
        assert!(text.ends_with(end), "{text}");
    }
}

#[test]
fn privileged_a_directory_of_another_user_is_one_line() {
    needs_root();
    let folder = Folder::with(&plugins_document("directory"));
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir(folder.path().join("data")).unwrap();
    let nobody = [
        "setpriv",
        "--reuid",
        NOBODY,
        "--regid",
        NOBODY,
        "--clear-groups",
        "--",
    ];
    let output = folder.serve(&nobody, &["--role", "controller"]);
    let expected = "wasmount: cannot write data: Permission denied (os error 13); give --data-dir a directory that this user may write\n";
    assert_eq!(said(&folder, &output), (FAILURE, expected.to_owned()));
}
