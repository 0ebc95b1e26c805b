//! `wasmount call`: what is printed of one call, and what never is.

use crate::looking_inside::program::{Bench, Told, component, text};
use serde_json::{Value, json};
use std::path::Path;

/// Value of a secret; nothing that is printed may hold it.
const PASSWORD: &str = "tr0ub4dor.hunter22.correct-horse";

/// Mounted, and one node writes.
const CAPABILITY: &str = "{mount: {}, access_mode: {mode: SINGLE_NODE_WRITER}}";

fn create(more: &str) -> String {
    format!("{{name: a, volume_capabilities: [{CAPABILITY}]{more}}}")
}

fn call(bench: &Bench, plugin: &str, rpc: &str, request: &str, more: &[&str]) -> Told {
    let component = component(plugin);
    let (state, pools, cache) = (
        bench.path("s.json"),
        bench.path("pools"),
        bench.path("cache"),
    );
    let mut words = vec!["call", text(&component), rpc, request, "--json"];
    words.extend(["--state", text(&state), "--cache", text(&cache)]);
    if !more.contains(&"--backend") {
        words.extend(["--pools", text(&pools)]);
    }
    words.extend(more);
    bench.run(&words)
}

/// A misbehaving plugin that does what is named when it makes a volume.
fn misbehave(bench: &Bench, behaviour: &str) -> Told {
    let more =
        format!(", parameters: {{behaviour: {behaviour}}}, secrets: {{password: {PASSWORD}}}");
    call(bench, "misbehave", "CreateVolume", &create(&more), &[])
}

fn volume_of(answer: &Value) -> String {
    let id = &answer["responses"][0]["volume"]["volume_id"];
    id.as_str().unwrap().to_owned()
}

#[test]
fn a_call_is_shown_with_answer_records_and_usage() {
    let bench = Bench::new();
    let told = call(&bench, "directory", "CreateVolume", &create(""), &[]).well();
    let answer = told.json();
    assert_eq!(
        (&answer["code"], &answer["codeName"]),
        (&json!(0), &json!("OK"))
    );
    let id = volume_of(&answer);
    assert_eq!(
        answer["state"],
        json!([{ "key": id, "before": null, "after": "1073741824" }])
    );
    assert!(bench.path("pools/volumes").join(&id).is_dir());
    let used = &answer["guestCalls"][0];
    assert_eq!(used["function"], "create-volume");
    assert!(used["memoryBytes"].as_u64().unwrap() >= 64 << 10, "{used}");
    assert!(used["cpuMicroseconds"].as_u64().unwrap() > 0, "{used}");
    assert!(used["microseconds"].as_u64() >= used["cpuMicroseconds"].as_u64());
}

#[test]
fn calls_follow_one_another_by_their_records() {
    let bench = Bench::new();
    let made = call(&bench, "directory", "CreateVolume", &create(""), &[]).well();
    let id = volume_of(&made.json());
    let request =
        format!("{{volume_id: {id}, staging_target_path: /a/b, volume_capability: {CAPABILITY}}}");
    let staged = call(&bench, "directory", "NodeStageVolume", &request, &[]).well();
    assert_eq!(
        staged.json()["plans"],
        json!([{
            "action": "stage",
            "path": "/a/b",
            "plan": {
                "source": { "directory": { "pool": "volumes", "path": id } },
                "defaultFsType": null,
                "mountOptions": [],
                "notes": {},
                "luks": null,
            },
            "verdict": {
                "word": "needs",
                "reason": null,
                "needs": { "grants": {
                    "pools": { "volumes": { "mountOptions": [] } },
                    "filesystems": [],
                    "attach": [],
                    "devices": [],
                } },
            },
        }])
    );
    // Of the host it asked one thing: that this be recorded.
    assert_eq!(staged.json()["guestCalls"][0]["hostCalls"], 1);
    let request = format!("{{volume_id: {id}}}");
    let deleted = call(&bench, "directory", "DeleteVolume", &request, &[]).well();
    assert_eq!(
        deleted.json()["state"],
        json!([{ "key": id, "before": "1073741824", "after": null }])
    );
    assert!(!bench.path("pools/volumes").join(&id).exists());
}

#[test]
fn a_request_is_read_from_file_stdin_or_arguments() {
    let bench = Bench::new();
    let file = bench.file("create.yaml", create("").replace(", ", ",\n  "));
    let plugin = component("directory");
    let from_file = format!("@{}", file.display());
    let mut ids = Vec::new();
    for (word, input) in [
        (from_file.as_str(), ""),
        ("-", create("").as_str()),
        (create("").as_str(), ""),
    ] {
        let words = ["call", text(&plugin), "CreateVolume", word, "--json"];
        ids.push(volume_of(&bench.run_with(&words, input).well().json()));
    }
    assert_eq!(ids[0], ids[1]);
    assert_eq!(ids[1], ids[2]);
}

#[test]
fn a_failed_call_exits_with_1_and_prints_its_code() {
    let bench = Bench::new();
    let told = call(&bench, "directory", "CreateVolume", "{}", &[]);
    assert_eq!(told.code, Some(1));
    let answer = told.json();
    assert_eq!(answer["codeName"], "INVALID_ARGUMENT");
    assert_eq!(answer["message"], "name is empty");
    assert_eq!(answer["guestCalls"], json!([]));
    let told = call(&bench, "directory", "ListVolumes", "{}", &[]);
    assert_eq!(told.json()["codeName"], "UNIMPLEMENTED");
}

#[test]
fn a_trap_is_shown_with_the_usage() {
    let bench = Bench::new();
    let told = misbehave(&bench, "trap");
    assert_eq!(told.code, Some(1), "{told:?}");
    let answer = told.json();
    assert_eq!(answer["codeName"], "INTERNAL");
    let message = answer["message"].as_str().unwrap();
    assert!(message.contains("trapped in create-volume"), "{message}");
    assert_eq!(answer["guestCalls"][0]["function"], "create-volume");
}

#[test]
fn no_secret_is_ever_printed() {
    let bench = Bench::new();
    for behaviour in [
        "secret-in-error",
        "secret-in-log",
        "secret-in-panic",
        "secret-in-pieces",
        "secret-in-state",
        "secret-in-pool",
        "secret-in-id",
        "secret-in-context",
        "well",
    ] {
        let told = misbehave(&bench, behaviour);
        let shown = format!("{}{}", told.out, told.err);
        assert!(!shown.contains(PASSWORD), "{behaviour}: {shown}");
    }
    // Where it was put by mistake.
    for request in [
        format!("{{secrets: {PASSWORD}}}"),
        format!("{{capacity_range: {{required_bytes: {PASSWORD}}}}}"),
        format!("{{secrets: [{PASSWORD}"),
        PASSWORD.to_owned(),
    ] {
        let told = call(&bench, "misbehave", "CreateVolume", &request, &[]);
        assert_eq!(told.code, Some(64), "{told:?}");
        assert!(!format!("{told:?}").contains(PASSWORD), "{told:?}");
    }
}

#[test]
fn the_log_of_a_plugin_is_shown() {
    let bench = Bench::new();
    let answer = misbehave(&bench, "secret-in-log").well().json();
    let log = answer["log"].as_array().unwrap();
    let lines: Vec<_> = log
        .iter()
        .map(|line| {
            (
                line["level"].as_str().unwrap(),
                line["text"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert_eq!(lines[0].0, "INFO");
    assert!(lines[0].1.starts_with("login with "), "{lines:?}");
    assert_eq!(lines[1].0, "WARN");
}

#[test]
fn pools_of_the_document_are_closed_unless_they_may_be_touched() {
    let bench = Bench::new();
    let plugin = component("directory");
    let pool = bench.path("granted");
    let grants = format!("  grants: {{ pools: {{ volumes: {{ path: {pool:?} }} }} }}\n");
    let document = bench.document(&plugin, &grants);
    let under = ["--backend", text(&document)];
    let told = call(&bench, "directory", "CreateVolume", &create(""), &under);
    let answer = told.json();
    assert_eq!(answer["codeName"], "FAILED_PRECONDITION", "{answer:#}");
    let message = answer["message"].as_str().unwrap();
    assert!(message.contains("`--touch-pools`"), "{message}");
    assert!(!pool.exists());

    let under = ["--backend", text(&document), "--touch-pools"];
    let told = call(&bench, "directory", "CreateVolume", &create(""), &under).well();
    assert!(pool.join(volume_of(&told.json())).is_dir());
}

#[test]
fn requests_and_flags_that_cannot_be_are_refused_with_64() {
    let bench = Bench::new();
    let plugin = component("directory");
    let plugin = text(&plugin);
    let broken = bench.file("broken.json", "[1]");
    for (words, part) in [
        (
            vec!["call", plugin, "CreateVolme"],
            "no call of CSI is named `CreateVolme`; did you mean `CreateVolume`?",
        ),
        (
            vec!["call", plugin, "CreateVolume", "{nam: a}"],
            "the request has no field `nam`; did you mean `name`?",
        ),
        (
            vec!["call", plugin, "Probe", "@/nowhere"],
            "request @/nowhere: cannot be read",
        ),
        (
            vec!["call", plugin, "Probe", "--touch-pools"],
            "--backend <FILE>",
        ),
        (
            vec!["call", plugin, "Probe", "--state", text(&broken)],
            "is not one JSON object of records",
        ),
        (vec!["call", plugin], "<RPC>"),
        (
            vec!["inspect", plugin, "--wit", "--json"],
            "prints WIT and nothing else; leave out --json",
        ),
    ] {
        let told = bench.run(&words);
        assert_eq!(told.code, Some(64), "{words:?}: {told:?}");
        assert!(told.err.contains(part), "{part}: {}", told.err);
    }
}

#[test]
fn the_text_form_has_columns() {
    let bench = Bench::new();
    let plugin = component("directory");
    let told = bench.run(&["call", text(&plugin), "CreateVolume", &create("")]);
    let told = told.well();
    let labels: Vec<_> = told
        .out
        .lines()
        .filter_map(|line| {
            line.split_whitespace()
                .next()
                .filter(|_| !line.starts_with(' '))
        })
        .collect();
    assert_eq!(
        labels,
        ["call", "code", "answer", "records", "time", "plugin"]
    );
    assert!(!Path::new("records.json").exists());
}

#[test]
fn a_call_is_given_the_facts_of_its_node() {
    let bench = Bench::new();
    let document = |facts: &str| {
        let granted = format!("  grants: {{ nodeFacts: [{facts}] }}\n");
        bench.document(&component("cinder"), &granted)
    };
    let describe = |document: &Path, facts: &[&str]| {
        let mut more = vec!["--backend", text(document)];
        more.extend(facts.iter().flat_map(|fact| ["--node-fact", fact]));
        call(&bench, "cinder", "NodeGetInfo", "{}", &more)
    };
    let both = document("instance-id, zone");
    let told = describe(&both, &["instance-id=vm-1", "zone=a"]).well();
    let node = &told.json()["responses"][0];
    assert_eq!(node["node_id"], "vm-1");
    let segments = &node["accessible_topology"]["segments"];
    assert_eq!(
        segments,
        &json!({ "topology.cinder.csi.openstack.org/zone": "a" })
    );
    let told = describe(&both, &["instance-id=vm-1", "zone="]).well();
    assert_eq!(
        told.json()["responses"][0]["accessible_topology"],
        Value::Null
    );
    let unknown = describe(&both, &[]);
    assert_eq!(unknown.json()["codeName"], "UNAVAILABLE");
    let denied = describe(&document("zone"), &["instance-id=vm-1"]);
    assert_eq!(denied.json()["codeName"], "PERMISSION_DENIED");
}
