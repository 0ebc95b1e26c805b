//! What is printed runs: the host takes every argument of every form.

use crate::manifests::scene::printed;
use crate::server::workspace;
use serde_json::Value;
use std::process::Command;
use wasmount_tests::documents;

const NODE: &str = "a";

/// Containers of the objects of a kind.
fn containers(text: &str, kind: &str) -> Vec<Value> {
    let objects = text.split("---\n").filter(|object| !object.is_empty());
    let objects = objects.map(|object| serde_saphyr::from_str::<Value>(object).unwrap());
    objects
        .filter(|object| object["kind"] == kind)
        .flat_map(|object| {
            let containers = &object["spec"]["template"]["spec"]["containers"];
            containers.as_array().unwrap().clone()
        })
        .collect()
}

fn arguments(container: &Value) -> Vec<String> {
    let arguments = container["args"].as_array().unwrap().iter();
    arguments
        .map(|argument| argument.as_str().unwrap().replace("$(NODE_NAME)", NODE))
        .collect()
}

fn is_ours(container: &Value) -> bool {
    container["image"].as_str().unwrap().starts_with("wasmount")
}

/// Whether the command line is taken, without anything being done.
fn is_taken(arguments: &[String]) -> bool {
    let program = workspace().host_program();
    let output = Command::new(program).args(arguments).arg("--help").output();
    output.unwrap().status.success()
}

#[test]
fn the_host_takes_every_argument_that_is_printed() {
    let directory = tempfile::tempdir().unwrap();
    let shared = documents::hostpath_over_pool(directory.path(), "/srv".as_ref()).unwrap();
    let nfs = workspace().backend_document("nfs");
    let of_nodes = ["hostpath", "directory", "podfiles"].map(|it| workspace().backend_document(it));
    let of_nodes = of_nodes.iter().map(|document| (document, "node-local"));
    let mut seen = 0;
    for (document, form) in of_nodes.chain([(&shared, "network"), (&nfs, "network")]) {
        let (text, _) = printed(document, &["--topology", form]);
        for kind in ["DaemonSet", "Deployment"] {
            for container in containers(&text, kind).iter().filter(|it| is_ours(it)) {
                let mut printed = arguments(container);
                assert!(is_taken(&printed), "{form}: {printed:?}");
                printed.push("--no-such-flag".to_owned());
                assert!(!is_taken(&printed), "{form}: {printed:?}");
                seen += 1;
            }
        }
    }
    // Host and mounter of each node, the controllers, and the mounter of the one that mounts its pool.
    assert_eq!(seen, 13);
}
