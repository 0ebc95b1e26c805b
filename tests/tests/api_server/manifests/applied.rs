//! All that is printed is taken by the API server, and what stands in `deploy/` is what is printed.

use crate::manifests::scene::{Scene, printed, renamed, run};
use crate::server::{error_of, workspace};
use serde_json::{Value, json};
use std::fs;
use wasmount_tests::documents;
use xtask::deploy::{self, Printed};

#[tokio::test(flavor = "multi_thread")]
async fn a_real_api_server_takes_every_object_that_is_printed() {
    let scene = Scene::start().await;
    scene.add_shared_objects();
    for plugin in ["hostpath", "directory", "podfiles"] {
        let document = workspace().backend_document(plugin);
        let (text, _) = printed(&document, &["--topology", "node-local"]);
        scene.apply(&text);
    }
    // The same driver in other forms: what cannot change goes first, as the host would say.
    let deleted = scene.kubectl(&["delete", "csidriver", "--all"]);
    assert!(deleted.status.success(), "{}", error_of(&deleted));
    let shared = documents::hostpath_over_pool(scene.directory.path(), "/srv".as_ref()).unwrap();
    let (text, _) = printed(&shared, &["--topology", "network"]);
    scene.apply(&text);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_api_server_accepts_a_controller_that_mounts() {
    let scene = Scene::shared().await;
    let (text, _) = printed(&workspace().backend_document("nfs"), &[]);
    scene.apply(&text);
    let name = "deployment/wasmount-nfs-controller";
    let read = scene.kubectl(&["get", name, "-n", "wasmount-system", "-o", "json"]);
    let deployment: Value = serde_json::from_slice(&read.stdout).unwrap();
    let pod = &deployment["spec"]["template"]["spec"];
    assert_eq!(pod["hostNetwork"], true);
    let mounter = &pod["containers"][1];
    assert_eq!(mounter["name"], "mounter");
    let security = &mounter["securityContext"];
    assert_eq!(security["privileged"], false);
    assert_eq!(security["appArmorProfile"]["type"], "Unconfined");
    assert_eq!(
        security["capabilities"]["add"],
        json!(["SYS_ADMIN", "FOWNER"])
    );
}

#[test]
fn values_of_network_secrets_are_not_needed_to_print() {
    let directory = tempfile::tempdir().unwrap();
    let address = "192.0.2.1:443".parse().unwrap();
    let document = documents::array_at(directory.path(), address).unwrap();
    for secret in ["user", "password"] {
        fs::remove_file(directory.path().join(secret)).unwrap();
    }
    let (text, said) = printed(&document, &[]);
    assert!(text.contains("kind: NetworkPolicy"), "{text}");
    assert!(
        said.contains("the keys password, user must be made"),
        "{said}"
    );
    let plugin = workspace().component("array");
    let looked = |command: &str| {
        let mut program = std::process::Command::new(workspace().host_program());
        program.arg(command).arg(&plugin).arg("--backend");
        program.arg(&document).output().unwrap()
    };
    let inspected = looked("inspect");
    assert!(inspected.status.success(), "{}", error_of(&inspected));
    // A host needs them.
    let checked = looked("check");
    let said = error_of(&checked);
    assert!(
        !checked.status.success() && said.contains("secret `password`"),
        "{said}"
    );
}

/// Grants of an array with a certificate and an account of its own.
const NETWORK: &str = "    network:
      array:
        hosts: [\"array.example.com\", \"10.1.2.3:8443\"]
        addresses: [10.1.0.0/16]
        services: [controller, node]
        tls: { ca: ca }
        auth: { bearer: { token: token } }
  secrets: { ca: { file: ca.pem }, token: { file: token } }
";

#[tokio::test(flavor = "multi_thread")]
async fn a_real_api_server_accepts_network_policies() {
    let scene = Scene::shared().await;
    let document = documents::hostpath_over_pool(scene.directory.path(), "/srv".as_ref()).unwrap();
    let mut text = renamed(&fs::read_to_string(&document).unwrap(), "guarded");
    text.push_str(NETWORK);
    let ca = rcgen::generate_simple_self_signed(vec!["array".to_owned()]).unwrap();
    for (file, value) in [("ca.pem", ca.cert.pem().as_str()), ("token", "secret")] {
        fs::write(scene.directory.path().join(file), value).unwrap();
    }
    fs::write(&document, text).unwrap();
    let (text, said) = printed(&document, &["--topology", "network"]);
    assert!(said.contains("the keys ca, token must be made"), "{said}");
    scene.apply(&text);
    let listed = scene.kubectl(&["get", "networkpolicies", "-A", "-o", "json"]);
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    let policies = listed["items"].as_array().unwrap().iter();
    let is_own = |it: &&Value| it.to_string().contains("guarded");
    let policies: Vec<_> = policies.filter(is_own).collect();
    let names: Vec<_> = policies.iter().map(|it| &it["metadata"]["name"]).collect();
    assert_eq!(
        names,
        ["wasmount-guarded-controller", "wasmount-guarded-node"]
    );
    for policy in policies {
        let array = json!({
            "ports": [{ "protocol": "TCP", "port": 8443 }],
            "to": [{ "ipBlock": { "cidr": "10.1.2.3/32" } }],
        });
        assert_eq!(policy["spec"]["egress"][3], array);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_api_server_accepts_every_overlay() {
    let scene = Scene::start().await;
    let apply = |folder: &str| {
        let folder = workspace().root().join("deploy").join(folder);
        scene.kubectl(&["apply", "-k", folder.to_str().unwrap()])
    };
    let too_early = apply("overlays/node-local");
    let said = error_of(&too_early);
    assert!(
        !too_early.status.success() && said.contains("namespaces \"wasmount-system\" not found"),
        "{said}"
    );
    for folder in ["shared", "overlays/node-local", "overlays/network"] {
        let applied = apply(folder);
        let said = error_of(&applied);
        assert!(
            applied.status.success() && said.is_empty(),
            "{folder}: {said}"
        );
    }
}

#[test]
fn the_printed_part_of_deploy_is_what_is_printed_now() {
    for Printed { path, text } in deploy::print(&workspace()).unwrap() {
        let there = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            there == text,
            "{}: run `cargo xtask deploy`",
            path.display()
        );
    }
}

#[test]
fn a_plugin_is_admitted_before_anything_is_printed() {
    let directory = tempfile::tempdir().unwrap();
    let component = directory.path().join("none.wasm");
    let document = documents::of_component(directory.path(), "a.example", &component).unwrap();
    let output = run(&[&document], &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty());
    let said = error_of(&output);
    assert!(
        said.contains("none.wasm") && said.contains("cannot be read"),
        "{said}"
    );
}

#[test]
fn what_works_on_one_node_only_is_said() {
    let document = workspace().backend_document("directory");
    let (_, said) = printed(&document, &["--topology", "node-local"]);
    assert!(
        said.contains("no topology") && said.contains("EXPAND_VOLUME"),
        "{said}"
    );
    let output = run(&[&document], &["--topology", "network"]);
    let said = error_of(&output);
    assert!(
        !output.status.success() && said.contains("relative path"),
        "{said}"
    );
}
