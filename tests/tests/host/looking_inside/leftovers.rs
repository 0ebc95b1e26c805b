//! Commands that are killed, and what is left of them: the next one takes it away, and never what one that lives is at work in.

use crate::looking_inside::program::{Bench, component, text};
use rustix::process::{Pid, Signal, kill_process};
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How long a command may take to begin.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(2);

/// A call that goes on until its plugin is stopped.
fn slow_call(bench: &Bench, document: &str) -> Child {
    let plugin = component("misbehave");
    let request = "{name: a, volume_capabilities: [{mount: {}, access_mode: {mode: SINGLE_NODE_WRITER}}], \
                   parameters: {behaviour: spin}}";
    let words = ["call", text(&plugin), "CreateVolume", request];
    let words = [&words[..], &["--backend", document]].concat();
    start(bench, &words)
}

fn start(bench: &Bench, words: &[&str]) -> Child {
    let mut command = bench.command(words);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(Stdio::null()).spawn().unwrap()
}

/// Its directory, once it is there.
fn place_of(bench: &Bench, child: &Child) -> String {
    let started = Instant::now();
    let prefix = format!("wasmount-workbench-{}-", child.id());
    loop {
        let found = bench.temporary();
        if let Some(name) = found.iter().find(|name| name.starts_with(&prefix)) {
            return name.clone();
        }
        assert!(started.elapsed() < PATIENCE, "{found:?}");
        thread::sleep(LOOK);
    }
}

fn send(child: &Child, signal: Signal) {
    let id = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(id, signal).unwrap();
}

#[test]
fn kill_9_leftovers_of_a_command_go_with_the_next_one() {
    let bench = Bench::new();
    let plugin = component("directory");
    let document = bench.document(
        &component("misbehave"),
        "  limits: { cpu: 60s, time: 120s }\n",
    );
    let mut living = slow_call(&bench, text(&document));
    let in_use = place_of(&bench, &living);
    let checked = ["check", text(&plugin), "--backend", text(&document)];
    for words in [
        &checked[..],
        &["inspect", text(&plugin)],
        &["call", text(&plugin), "Probe"],
    ] {
        let mut killed = start(&bench, words);
        let left = place_of(&bench, &killed);
        killed.kill().unwrap();
        killed.wait().unwrap();
        assert!(bench.temporary().contains(&left), "{words:?}");
        let next = bench.command(&["inspect", text(&plugin)]).output().unwrap();
        assert!(next.status.success(), "{next:?}");
        assert_eq!(
            bench.temporary(),
            std::slice::from_ref(&in_use),
            "{words:?}"
        );
    }
    // A command that is asked to end takes its own away.
    send(&living, Signal::TERM);
    living.wait().unwrap();
    assert_eq!(bench.temporary(), [""; 0]);
}
