//! Completions complete commands and flags, and each command has a manual page.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use xtask::command;
use xtask::workspace::Workspace;

fn workspace() -> Workspace {
    Workspace::locate().unwrap()
}

fn wasmount(arguments: &[&str]) -> String {
    command::read(Command::new(workspace().host_program()).args(arguments)).unwrap()
}

/// The commands that `--help` lists.
fn commands() -> BTreeSet<String> {
    let help = wasmount(&["--help"]);
    let (_, rest) = help.split_once("Commands:\n").unwrap();
    let lines = rest.lines().take_while(|line| !line.is_empty());
    let names = lines.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    let names = names.filter(|name| !name.is_empty() && *name != "help");
    names.map(str::to_owned).collect()
}

/// What bash offers after these words.
fn offered(script: &Path, words: &[&str]) -> BTreeSet<String> {
    let last = words.len() - 1;
    let asked = format!(
        "source {}; COMP_WORDS=({}); COMP_CWORD={last}; _wasmount wasmount '{}' '{}' || test $? = 1; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        script.display(),
        words.join(" "),
        words[last],
        words[last - 1],
    );
    // Without files of the user, and with the end at the first error; 1 is that nothing matches.
    let mut bash = Command::new("bash");
    let offered = command::read(bash.args(["--norc", "-eu", "-c", &asked])).unwrap();
    offered.lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_commands_and_their_flags() {
    let directory = tempfile::tempdir().unwrap();
    let script = directory.path().join("wasmount.bash");
    fs::write(&script, wasmount(&["completions", "bash"])).unwrap();
    let one = offered(&script, &["wasmount", "manif"]);
    assert_eq!(one, BTreeSet::from(["manifests".to_owned()]));
    let flags = offered(&script, &["wasmount", "manifests", "--top"]);
    assert_eq!(flags, BTreeSet::from(["--topology".to_owned()]));
    let values = offered(&script, &["wasmount", "manifests", "--topology", "n"]);
    let expected = ["network", "node-local"].map(str::to_owned);
    assert_eq!(values, BTreeSet::from(expected));
    assert_eq!(
        offered(&script, &["wasmount", "no"]),
        BTreeSet::from([String::new()])
    );
}

#[test]
fn every_command_is_completed_and_has_a_manual_page() {
    let directory = tempfile::tempdir().unwrap();
    wasmount(&["man", "--output", directory.path().to_str().unwrap()]);
    let commands = commands();
    assert!(commands.len() > 20, "{commands:?}");
    let read = |name: String| fs::read_to_string(directory.path().join(name)).unwrap();
    let scripts = ["bash", "zsh", "fish"].map(|shell| wasmount(&["completions", shell]));
    for command in &commands {
        let page = read(format!("wasmount-{command}.1"));
        assert!(page.contains(".TH ") && page.contains("Example"), "{page}");
        for script in &scripts {
            assert!(script.contains(command.as_str()), "{command}");
        }
    }
    for script in &scripts {
        assert!(!script.contains("compile-child"), "{script}");
    }
    let page = read("wasmount.1".to_owned());
    assert!(!page.contains("compile-child"), "{page}");
    let written = fs::read_dir(directory.path()).unwrap().count();
    // One more is the overview, and one of `help` may be beside it.
    assert!(written > commands.len(), "{written}");
    let failed = Command::new(workspace().host_program())
        .args(["man", "--output", "/nowhere"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&failed.stderr);
    assert!(
        !failed.status.success() && said.contains("/nowhere"),
        "{said}"
    );
}
