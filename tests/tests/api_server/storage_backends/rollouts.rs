//! Real hosts and a real API server: a change goes through its steps, one that fails comes back everywhere by itself, and nothing depends on which host
//! decides, or on whether a host restarts meanwhile.

use crate::server::{error_of, workspace};
use crate::storage_backends::cluster::Cluster;
use crate::storage_backends::overview::one;
use crate::storage_backends::scene::{Scene, condition, says, soon};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Event;
use kube::Api;
use kube::api::ListParams;
use serde_json::{Value, json};
use std::process::Command;
use std::time::{Duration, Instant};
use tonic::Code;
use wasmount_csi::wire::csi::v1::CreateVolumeRequest;
use wasmount_tests::orchestrator::code;
use wasmount_tests::requests;

/// Calls until a version that traps in each of them is taken back at the latest.
const CALLS: usize = 60;

fn percent_then_labels(pauses: [Option<&str>; 2]) -> Value {
    let mut steps = json!([
        { "percent": 1 },
        { "selector": { "matchLabels": { "tier": "canary" } } },
    ]);
    for (step, pause) in steps.as_array_mut().unwrap().iter_mut().zip(pauses) {
        if let Some(pause) = pause {
            step["pause"] = json!(pause);
        }
    }
    steps
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_a_change_goes_through_its_steps_to_all_hosts() {
    let scene = Scene::shared().await;
    let mut cluster = Cluster::start(scene, "steps", 3, "directory").await;
    assert_eq!(cluster.numbers().await, cluster.second_for(&[]));
    let calls = cluster.calling().await;
    let with = |pauses| {
        let mut changed = cluster.object(percent_then_labels(pauses));
        changed["spec"]["limits"] = json!({ "time": "50s" });
        changed
    };
    // A pause of a day: each step is looked at for as long as it takes.
    cluster.scene.apply(&with([Some("24h"), Some("24h")])).await;
    let first = cluster.takers(1).await;
    let object = cluster
        .until("1/2", "the first step", |it| {
            it["status"]["rollout"]["servedSince"].is_string()
        })
        .await;
    assert!(says(&object, "Progressing", "True", "RollingOut"));
    assert!(says(&object, "Ready", "True", "Serving"));
    assert_eq!(
        object["status"]["hosts"],
        json!({ "total": 3, "current": 1 })
    );
    assert_eq!(cluster.numbers().await, cluster.second_for(&first));

    // Other steps are no other change.
    cluster.scene.apply(&with([None, Some("24h")])).await;
    let object = cluster
        .until("2/2", "the second step", |it| {
            it["status"]["rollout"]["servedSince"].is_string()
        })
        .await;
    let is_in = |node: &&String| first.contains(node) || *node == "steps-2";
    let both: Vec<_> = cluster.hosts.keys().filter(is_in).cloned().collect();
    assert_eq!(cluster.takers(both.len()).await, both);
    assert_eq!(object["status"]["rollout"]["attempt"], 1);
    assert_eq!(cluster.numbers().await, cluster.second_for(&both));

    cluster.scene.apply(&with([None, None])).await;
    let object = cluster
        .until("Promoted", "the end", |it| {
            it["status"]["hosts"]["current"] == 3
        })
        .await;
    assert!(says(&object, "Progressing", "False", "Converged"));
    let all: Vec<_> = cluster.hosts.keys().cloned().collect();
    assert_eq!(cluster.numbers().await, cluster.second_for(&all));

    // By time alone: each step lasts as long as its pause.
    let mut by_time = with([Some("3s"), Some("3s")]);
    by_time["spec"]["limits"] = json!({ "time": "40s" });
    let candidate = &object["status"]["rollout"]["candidate"];
    let begun = Instant::now();
    cluster.scene.apply(&by_time).await;
    cluster
        .until("Promoted", "the end by time", |it| {
            it["status"]["rollout"]["candidate"] != *candidate
                && it["status"]["hosts"]["current"] == 3
        })
        .await;
    assert!(begun.elapsed() >= Duration::from_secs(6));
    calls.none_failed().await;
    cluster.delete().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_a_failing_canary_brings_all_hosts_back() {
    let scene = Scene::shared().await;
    let mut cluster = Cluster::start(scene, "failing", 3, "misbehave").await;
    // Calls that the plugin can answer: of the hosts that stay, and of the one that takes the change and gives it back.
    let calls = cluster.calling().await;
    let steps = json!([{ "percent": 1, "pause": "24h" }]);
    let mut changed = cluster.misbehaving(steps);
    changed["spec"]["limits"] = json!({ "time": "50s" });
    cluster.scene.apply(&changed).await;
    let first = cluster.takers(1).await;
    cluster
        .until("1/1", "the first step", |it| {
            it["status"]["rollout"]["servedSince"].is_string()
        })
        .await;
    let before = cluster.numbers().await;
    let [canary] = first.as_slice() else {
        panic!("{first:?}")
    };
    assert!(
        before
            .iter()
            .all(|(node, number)| (*number > 1) == (node == canary)),
        "{before:?}"
    );

    // One fault begins the pause again, and is seen without a look at the host.
    let calling = cluster.hosts.get_mut(canary).unwrap();
    let orchestrator = calling.orchestrator(&cluster.driver).await;
    let trapping = |number: usize| CreateVolumeRequest {
        parameters: [("behaviour".to_owned(), "trap".to_owned())].into(),
        ..requests::create(&format!("pvc-{number}"), 1 << 20)
    };
    assert_eq!(
        code(&orchestrator.create(trapping(0)).await),
        Code::Internal
    );
    let counted = format!("counted from a fault on {canary}");
    cluster
        .until("1/1", "the pause from the fault on", |it| {
            let message = it["status"]["rollout"]["message"].as_str();
            message.is_some_and(|it| it.ends_with(&counted))
        })
        .await;
    let faulty = &one(&cluster.scene.kubeconfig(), cluster.name)["faulty"];
    assert_eq!(
        (&faulty["total"], &faulty["named"][0]["host"]),
        (&json!(1), &json!(canary))
    );

    // It traps in the calls of a few, and is taken back there; the others never had it.
    let mut object = Value::Null;
    for number in 1..CALLS {
        let answer = orchestrator.create(trapping(number)).await;
        assert_eq!(code(&answer), Code::Internal);
        let now = cluster.scene.backends().get(cluster.name).await.unwrap();
        object = serde_json::to_value(now).unwrap();
        if object["status"]["rollout"]["phase"] == "Failed" {
            break;
        }
    }
    if object["status"]["rollout"]["phase"] != "Failed" {
        object = cluster.until("1/1 Failed", "the failure", |_| true).await;
    }
    for kind in ["Degraded", "RolledBack"] {
        let said = condition(&object, kind).unwrap();
        assert_eq!(
            said,
            ("True".to_owned(), "RolloutFailed".to_owned()),
            "{kind}"
        );
    }
    let message = object["status"]["rollout"]["message"].as_str().unwrap();
    assert!(message.starts_with(&format!("{canary}: ")), "{message}");
    assert!(message.contains("trapped"), "{message}");

    // All serve what was promoted last, and say so; nothing happens by itself from then on.
    cluster.takers(0).await;
    cluster
        .until("1/1 Failed", "hosts that serve", |it| {
            says(it, "Ready", "True", "Serving")
                && it["status"]["phases"] == json!({ "Serving": 3 })
        })
        .await;
    for serving in cluster.hosts.values_mut() {
        let orchestrator = serving.orchestrator(&cluster.driver).await;
        orchestrator.has_plugin().await.unwrap();
        // The volume that was asked for in vain.
        let repeated = requests::create("pvc-0", 1 << 20);
        orchestrator.create(repeated).await.unwrap();
    }
    calls.none_failed().await;
    let shown = cluster.commanded("status");
    assert!(
        shown.contains("Failed") && shown.contains(canary.as_str()),
        "{shown}"
    );
    let events = Api::<Event>::namespaced(cluster.scene.client.clone(), "default");
    let those =
        ListParams::default().fields("involvedObject.kind=StorageBackend,reason=RolloutFailed");
    let told = soon("an event", async || {
        let found = events.list(&those).await.ok()?.items.into_iter();
        found
            .filter(|it| it.involved_object.name.as_deref() == Some(cluster.name))
            .find_map(|it| it.message)
    })
    .await;
    assert!(told.contains(canary.as_str()), "{told}");
    cluster.delete().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_a_rollout_is_paused_resumed_undone_and_repeated() {
    let scene = Scene::shared().await;
    let mut cluster = Cluster::start(scene, "commands", 2, "directory").await;
    let calls = cluster.calling().await;
    let refused = cluster.command("pause");
    let words = error_of(&refused);
    assert_eq!(refused.status.code(), Some(1), "{words}");
    assert!(
        words.contains("no rollout is under way: it is Promoted"),
        "{words}"
    );

    let with = |steps: Value| {
        let mut changed = cluster.object(steps);
        changed["spec"]["limits"] = json!({ "time": "50s" });
        changed
    };
    cluster
        .scene
        .apply(&with(json!([{ "percent": 1, "pause": "24h" }])))
        .await;
    let first = cluster.takers(1).await;
    let said = cluster.commanded("pause");
    assert!(said.starts_with("commands: step 1 of 1, Paused"), "{said}");
    // Without its pause the step would be over.
    cluster.scene.apply(&with(json!([{ "percent": 1 }]))).await;
    cluster
        .until("1/1 Paused", "a pause with a served step", |it| {
            it["status"]["rollout"]["servedSince"].is_string()
        })
        .await;
    assert_eq!(cluster.takers(1).await, first);
    let said = cluster.commanded("resume");
    assert!(said.starts_with("commands: "), "{said}");
    cluster
        .until("Promoted", "the end", |it| {
            it["status"]["hosts"]["current"] == 2
        })
        .await;

    // After its promotion, too.
    let said = cluster.commanded("undo");
    assert!(said.contains("RolledBack"), "{said}");
    cluster.takers(0).await;
    let object = cluster
        .until("all RolledBack", "hosts that are back", |it| {
            it["status"]["phases"] == json!({ "Serving": 2 })
                && it["status"]["hosts"]["current"] == 0
        })
        .await;
    assert!(says(&object, "RolledBack", "True", "RolloutUndone"));
    let again = cluster.command("undo");
    assert_eq!(again.status.code(), Some(1));
    cluster.commanded("resume");
    let object = cluster
        .until("Promoted", "the second attempt", |it| {
            it["status"]["hosts"]["current"] == 2
        })
        .await;
    assert_eq!(object["status"]["rollout"]["attempt"], 2);
    let shown = cluster.commanded("status");
    let head = "commands: all hosts, Promoted since ";
    assert!(shown.starts_with(head), "{shown}");
    let table: Vec<_> = shown.lines().skip(1).collect();
    assert_eq!(
        table[..2],
        [
            "STEP  HOSTS                 PAUSE  STATE",
            "1     1%                    none   done"
        ]
    );
    calls.none_failed().await;

    let nobody = Command::new(workspace().host_program())
        .args(["rollout", "status", "nobody", "--kubeconfig"])
        .arg(cluster.scene.kubeconfig())
        .output()
        .unwrap();
    assert_eq!(nobody.status.code(), Some(64), "{}", error_of(&nobody));
    cluster.delete().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_a_killed_leader_is_replaced_in_the_middle() {
    let scene = Scene::start().await;
    let mut cluster = Cluster::start(scene, "leader", 3, "directory").await;
    let with = |cluster: &Cluster, pause: Option<&str>| {
        let mut changed = cluster.object(percent_then_labels([pause, None]));
        changed["spec"]["limits"] = json!({ "time": "50s" });
        changed
    };
    cluster.scene.apply(&with(&cluster, Some("24h"))).await;
    let first = cluster.takers(1).await;
    cluster
        .until("1/2", "the first step", |it| {
            it["status"]["rollout"]["servedSince"].is_string()
        })
        .await;
    let leader = {
        let leases = Api::<Lease>::namespaced(cluster.scene.client.clone(), "default");
        let all = leases.list(&ListParams::default()).await.unwrap().items;
        let names = all.into_iter().filter_map(|it| it.spec?.holder_identity);
        let holder: Vec<_> = names.collect();
        let mut nodes = cluster.hosts.keys();
        let node = nodes.find(|node| holder.iter().any(|it| it.contains(node.as_str())));
        node.unwrap_or_else(|| panic!("{holder:?}")).clone()
    };
    cluster
        .hosts
        .get_mut(&leader)
        .unwrap()
        .host
        .kill_9()
        .unwrap();
    // Another one goes on from what is in the status. It waits for the killed one, if that is to take the change yet.
    cluster.scene.apply(&with(&cluster, None)).await;
    let object = cluster
        .scene
        .until("leader", "another leader's decision", |it| {
            let rollout = &it["status"]["rollout"];
            let message = rollout["message"].as_str().unwrap_or_default();
            // It may have been the host of the first step, whose report says all that is needed.
            message.contains(&format!("waits for {leader}")) || rollout["phase"] == "Promoted"
        })
        .await;
    assert_eq!(object["status"]["rollout"]["attempt"], 1);
    cluster
        .hosts
        .get_mut(&leader)
        .unwrap()
        .host
        .restart()
        .unwrap();
    cluster
        .until("Promoted", "the end", |it| {
            it["status"]["hosts"]["current"] == 3
        })
        .await;
    let all: Vec<_> = cluster.hosts.keys().cloned().collect();
    assert!(all.contains(&first[0]));
    assert_eq!(cluster.numbers().await, cluster.second_for(&all));
    cluster.delete().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_a_restart_without_api_server_keeps_the_step() {
    let scene = Scene::start().await;
    let mut cluster = Cluster::start(scene, "restarted", 2, "directory").await;
    let mut changed = cluster.object(json!([{ "percent": 1, "pause": "24h" }]));
    changed["spec"]["limits"] = json!({ "time": "50s" });
    cluster.scene.apply(&changed).await;
    let first = cluster.takers(1).await;
    let before = cluster.numbers().await;
    assert_eq!(before, cluster.second_for(&first));
    cluster.scene.plane.stop_api();
    let driver = cluster.driver.clone();
    for serving in cluster.hosts.values_mut() {
        serving.host.kill_9().unwrap();
        serving.host.restart().unwrap();
        serving.until_socket(&driver).await;
        let orchestrator = serving.orchestrator(&driver).await;
        orchestrator.has_plugin().await.unwrap();
    }
    assert_eq!(cluster.numbers().await, before);
    cluster.scene.plane.start_api().await.unwrap();
    cluster
        .until("1/1", "the same step", |it| {
            it["status"]["hosts"] == json!({ "total": 2, "current": 1 })
        })
        .await;
    assert_eq!(cluster.takers(1).await, first);
    assert_eq!(cluster.numbers().await, before);
}
