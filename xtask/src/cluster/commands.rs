//! `cargo xtask cluster up`, `down` and `kubectl`: a cluster to explore, with backends in it as pods.

use super::access::{NODE_NAME, User};
use super::one_node::{self, Cluster};
use super::{BUSYBOX_IMAGE, wait};
use crate::command;
use crate::failure::Failure;
use crate::files;
use crate::image::{self, REGISTRY};
use crate::packages;
use crate::platform::Architecture;
use crate::plugins;
use crate::say;
use crate::workspace::Workspace;
use k8s_openapi::api::storage::v1::CSINode;
use kube::Api;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The deployed backends, each with volumes of the node: one for the features of a pool's file system, one for file systems in files.
const BACKENDS: [&str; 2] = ["hostpath", "local-images"];

/// The namespace of our manifests.
const NAMESPACE: &str = "wasmount-system";

/// Timeout until the pods of a backend run: their images are imported, so seconds on an idle machine.
const ROLL_OUT: &str = "180s";

/// A claim, and a pod that writes into its volume.
const EXAMPLE: &str = include_str!("example.yaml");

/// Starts a cluster with backends in it; reports it if one is running.
pub fn up(workspace: &Workspace) -> Result<(), Failure> {
    let root = workspace.cluster();
    if let Some(cluster) = Cluster::find(workspace, &root)? {
        say::line("the cluster is up already");
        print_next_steps(&cluster, &example_file(&root));
        return Ok(());
    }
    one_node::needs_root()?;
    packages::install(packages::CLUSTER)?;
    packages::install(packages::IMAGE)?;
    say::heading("── programs (Kubernetes is compiled: ten minutes the first time)");
    plugins::build(workspace)?;
    plugins::build_host(workspace)?;
    let program = workspace.host_program();
    let name = image::wasmount_name();
    let architecture = Architecture::of_this_machine()?;
    let mut images = image::sidecars(workspace)?;
    images.push(image::wasmount(workspace, architecture, &program, &name)?);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(Failure::cannot("start the async runtime"))?;
    say::heading("── cluster");
    runtime.block_on(async {
        let mut cluster = Cluster::start_in(workspace, &root).await?;
        say::line("the node is ready");
        for image in &images {
            cluster.import(image).await?;
        }
        apply(&cluster, &program, "shared", &["--shared"])?;
        for backend in BACKENDS {
            let document = workspace.backend_document(backend);
            deploy(&cluster, &program, &document)?;
        }
        registered(&cluster).await?;
        say::line(&format!("{} serve volumes", BACKENDS.join(" and ")));
        let example = example_file(&root);
        files::write(&example, EXAMPLE.replace("IMAGE", BUSYBOX_IMAGE))?;
        // Until here the cluster ended with this process: a partial cluster is of no use.
        cluster.own(false)?;
        print_next_steps(&cluster, &example);
        Ok(())
    })
}

/// Ends the cluster and removes its leftovers, also after a crash.
pub fn down(workspace: &Workspace) -> Result<(), Failure> {
    let root = workspace.cluster();
    if !root.exists() {
        say::line("no cluster is up");
        return Ok(());
    }
    one_node::needs_root()?;
    one_node::remove(&root)?;
    say::line("the cluster is gone");
    Ok(())
}

/// Replaces this process by kubectl with the administrator's rights.
pub fn kubectl(workspace: &Workspace, arguments: &[OsString]) -> Result<(), Failure> {
    let Some(cluster) = Cluster::find(workspace, &workspace.cluster())? else {
        return Err(Failure::missing(
            "the cluster",
            "`cargo xtask cluster up` starts one",
        ));
    };
    command::become_program(cluster.kubectl().args(arguments))
}

/// Applies the output of `wasmount manifests`, and waits until its pods run.
fn deploy(cluster: &Cluster, program: &Path, document: &Path) -> Result<(), Failure> {
    let name = document.parent().and_then(Path::file_name);
    let name = name.unwrap_or_default().to_string_lossy();
    let document = document.display().to_string();
    let image = image::wasmount_name();
    let flags = [
        ["--topology", "node-local"],
        ["--sidecar-registry", REGISTRY],
        ["--image", &image],
        ["--backend", &document],
    ];
    apply(cluster, program, &name, flags.as_flattened())?;
    let mut wait = cluster.kubectl();
    wait.args(["rollout", "status", "daemonset", "--namespace", NAMESPACE])
        .args(["--selector", &format!("app.kubernetes.io/instance={name}")])
        .args(["--timeout", ROLL_OUT]);
    command::read(&mut wait).map(drop)
}

/// Prints manifests into a file of this name in the cluster's directory, and applies them.
fn apply(cluster: &Cluster, program: &Path, name: &str, flags: &[&str]) -> Result<(), Failure> {
    let mut manifests = std::process::Command::new(program);
    let printed = command::read(manifests.arg("manifests").args(flags))?;
    let file = cluster.lab().root().join(format!("{name}.yaml"));
    files::write(&file, printed)?;
    let mut apply = cluster.kubectl();
    // Server-side: a component is too large for the annotation of client-side apply.
    apply.args(["apply", "--server-side", "--filename"]);
    command::read(apply.arg(&file)).map(drop)
}

/// Waits until the drivers of all backends are registered with kubelet.
async fn registered(cluster: &Cluster) -> Result<(), Failure> {
    let nodes = Api::<CSINode>::all(cluster.client().await?);
    wait(async || {
        let node = nodes.get(NODE_NAME).await;
        let node = node.map_err(Failure::cannot("see the CSINode"))?;
        if node.spec.drivers.len() >= BACKENDS.len() {
            return Ok(());
        }
        let registered: Vec<_> = node.spec.drivers.iter().map(|it| &*it.name).collect();
        Err(Failure::Unexpected(format!(
            "only these drivers are registered: {registered:?}"
        )))
    })
    .await
}

fn example_file(root: &Path) -> PathBuf {
    root.join("example.yaml")
}

fn print_next_steps(cluster: &Cluster, example: &Path) {
    let kubeconfig = cluster.kubeconfig(User::Admin);
    let programs = cluster.programs().directory();
    say::heading("\nWhat to type next");
    for line in [
        format!(
            "export KUBECONFIG={} PATH={}:$PATH",
            kubeconfig.display(),
            programs.display()
        ),
        format!(
            "kubectl apply -f {}     # a claim, and a pod that writes into its volume",
            example.display()
        ),
        // Capacities are in the namespace of the drivers.
        "kubectl get --all-namespaces pvc,pv,pods,csinodes,csistoragecapacities".to_owned(),
        "kubectl exec example -- cat /data/log     # once it runs".to_owned(),
        format!(
            "kubectl --namespace {NAMESPACE} logs daemonset/wasmount-local-images-node --container wasmount"
        ),
        "cargo xtask cluster down                  # leaves nothing behind".to_owned(),
    ] {
        say::line(&format!("  {line}"));
    }
}
