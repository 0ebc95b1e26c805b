//! `wasmount manifests`: its flags, and the facts of a backend as input for `wasmount_kubernetes`.
//!
//! The output depends only on those and on the flags. `wasmount_kubernetes::manifests` defines the objects.

mod carried;
mod facts;
mod object;

use super::cluster_values::{image, image_prefix, namespace};
use super::common::plain;
use super::registry::RegistryFlags;
use super::subject::CacheFlags;
use super::transfer::{wait, write_whole};
use crate::config::{self, Configured};
use crate::fault::Fault;
use crate::host::{TemporaryDirectory, Workbench, block_on};
use crate::visible;
use clap::{ArgGroup, Args, ValueEnum};
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use wasmount_artifact::pull;
use wasmount_core::backend::Backend as _;
use wasmount_core::capabilities::{Capabilities, PluginCapability, Profile};
use wasmount_core::document::{PluginPlace, SecretSource, Signers};
use wasmount_core::driver::Role;
use wasmount_core::services::Service;
use wasmount_kubernetes::csi_driver::csi_driver;
use wasmount_kubernetes::manifests::{
    Backend, Choices, Form, Manifest, definition_manifests, manifests, node_set_manifests,
    shared_manifests, to_yaml, warnings,
};
use wasmount_versions::{AdmissionReport, Admitted};

/// The beginning of each object: the comments are within the first one, for programs that split the text.
const BEGINNING: &str = "---\n";

/// The beginning of an error.
const IMPOSSIBLE: &str = "no manifests can be printed";

/// The file name of a pulled component.
const PULLED: &str = "component.wasm";

/// Print the Kubernetes manifests of a backend
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("printed").args(["backend", "crd", "shared"]).required(true).multiple(true)))]
#[command(after_help = "\
Example, once for a cluster, and then for a backend with volumes on the nodes:
  $ wasmount manifests --shared
  $ wasmount manifests --backend hostpath.yaml --topology node-local

Example, one DaemonSet for two backends whose volumes every node reaches:
  $ wasmount manifests --node-set --backend nas.yaml --backend san.yaml
  $ wasmount manifests --in-node-set --backend nas.yaml
  $ wasmount manifests --in-node-set --backend san.yaml

Apply each with `kubectl apply --server-side -f -`: a component is too large for the annotation that client-side apply stores.

Exit codes: 0, 64 for wrong flags or documents, 1 for any other failure.")]
pub(crate) struct Flags {
    /// A StorageBackend document; its plugin is loaded to read its capabilities. Several for --node-set
    #[arg(long, value_name = "FILE", env, value_delimiter = ',')]
    backend: Vec<PathBuf>,

    /// Print only the CustomResourceDefinitions of StorageBackend and StorageBackendNode
    #[arg(long)]
    crd: bool,

    /// Print only what all backends share: the Namespace and all CustomResourceDefinitions. Apply it first, delete it last
    #[arg(long, conflicts_with_all = ["crd", "as_object"])]
    shared: bool,

    /// Print only the StorageBackend object, with absolute paths
    #[arg(long, conflicts_with = "crd")]
    as_object: bool,

    /// Serve the backend from a StorageBackend object: changes take effect without a restart
    #[arg(long)]
    storage_backends: bool,

    /// Print only the DaemonSet that serves all of these backends on the nodes, with its rights and their documents. No plugin is loaded
    #[arg(long, conflicts_with_all = ["crd", "shared", "as_object", "in_node_set"])]
    node_set: bool,

    /// Print no DaemonSet: that of --node-set serves the backend on the nodes, from a StorageBackend object
    #[arg(long, conflicts_with_all = ["crd", "shared", "as_object"])]
    in_node_set: bool,

    /// Where volumes are [default: node-local for a plugin with topology and a pool on each node, else network]
    #[arg(long, env)]
    topology: Option<TopologyArg>,

    /// Container image of Wasmount
    #[arg(long, env, default_value = concat!("wasmount:", env!("CARGO_PKG_VERSION")), value_parser = image)]
    image: String,

    /// Registry of the sidecar images
    #[arg(
        long,
        value_name = "PREFIX",
        env,
        default_value = "registry.k8s.io/sig-storage",
        value_parser = image_prefix
    )]
    sidecar_registry: String,

    /// Path of the component in the image, if it is too large for a ConfigMap
    #[arg(long, value_name = "PATH", env)]
    plugin_in_image: Option<PathBuf>,

    /// Namespace of the pods
    #[arg(long, env, default_value = "wasmount-system", value_parser = namespace)]
    namespace: String,

    /// Default file system type
    #[arg(
        long,
        value_name = "TYPE",
        env,
        value_parser = ["ext4", "xfs", "btrfs"],
        default_value = "ext4"
    )]
    fs_type: String,

    /// kubelet's root directory on the nodes
    #[arg(long, value_name = "DIR", env, default_value = "/var/lib/kubelet")]
    kubelet_dir: PathBuf,

    /// Port of the health endpoints; unique for each backend with host networking, where a controller takes the next one
    #[arg(
        long,
        value_name = "PORT",
        env,
        default_value_t = 9809,
        value_parser = clap::value_parser!(u16).range(1..)
    )]
    health_port: u16,

    /// Where pods on the network of their node answer health checks and metrics; 0.0.0.0 shows them to whoever reaches the node
    #[arg(
        long,
        value_name = "ADDRESS",
        env,
        default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST)
    )]
    health_address: IpAddr,

    /// Use host networking for the node pods
    #[arg(long, env)]
    host_network: bool,

    /// Print a PodMonitor, for a cluster with the Prometheus operator
    #[arg(long, env)]
    pod_monitor: bool,

    #[command(flatten)]
    registry: RegistryFlags,

    #[command(flatten)]
    cache: CacheFlags,
}

/// The forms as flag values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum TopologyArg {
    /// A volume is on the node that created it: controller and node services on each node
    NodeLocal,
    /// Every node reaches every volume: one controller, and a node service on each node
    Network,
}

/// Prints the manifests.
pub(crate) fn run(flags: Flags) -> Result<(), Fault> {
    if flags.shared {
        let all = shared_manifests(&flags.namespace).map_err(Fault::failed(IMPOSSIBLE))?;
        return print(&all, &[]);
    }
    let (Some(file), false) = (flags.backend.first(), flags.crd) else {
        let all = definition_manifests().map_err(Fault::failed(IMPOSSIBLE))?;
        return print(&all, &[]);
    };
    plain("--kubelet-dir", &flags.kubelet_dir)?;
    if flags.node_set {
        return flags.print_node_set();
    }
    if let Some(second) = flags.backend.get(1) {
        let reason = "only --node-set takes several documents: print each backend by itself";
        return Err(Fault::flag("--backend", second.display(), reason));
    }
    let configured = config::load_one(file)?;
    if flags.as_object {
        let text = facts::read_again(&configured.file)?;
        let (object, warnings) = object::of_folder(&text, &configured.folder)?;
        return print(&[object], &warnings);
    }
    if !flags.storage_backends && !flags.in_node_set {
        config::of_one_host(std::slice::from_ref(&configured))?;
    }
    flags.print_backend(configured)
}

/// The warnings are comments of the YAML as well: whoever reads the file later did not see standard error.
fn print(all: &[Manifest], warnings: &[String]) -> Result<(), Fault> {
    let yaml = to_yaml(all).map_err(Fault::failed(IMPOSSIBLE))?;
    let objects = yaml.strip_prefix(BEGINNING).unwrap_or(&yaml);
    let mut text = BEGINNING.to_owned();
    for warning in warnings {
        let warning = visible::line(warning);
        // A closed standard error must not prevent the output of the YAML.
        let _ = writeln!(io::stderr(), "wasmount: warning: {warning}");
        text.push_str(&format!("# Warning: {warning}\n"));
    }
    text.push_str(objects);
    let printed = io::stdout().write_all(text.as_bytes());
    printed.map_err(Fault::failed("the manifests cannot be printed"))
}

impl Flags {
    fn print_backend(self, configured: Configured) -> Result<(), Fault> {
        let admitted = self.admit(&configured)?;
        let document = &configured.document;
        let offer = admitted.backend.offer();
        let capabilities = Capabilities::derive(offer, Role::All, Profile::V1_12, &document.hidden);
        let csi_driver = csi_driver(&document.driver_name, &capabilities, &document.csi_driver)
            .map_err(Fault::failed("the document contradicts its plugin"))?;
        let form = self.form(&configured, &capabilities);
        let backend = Backend {
            registers_nodes: offer.has(Service::NodeRegister),
            capabilities,
            csi_driver,
            ..self.facts(configured)?
        };
        let choices = self.choices(form);
        let all = manifests(&backend, &choices).map_err(Fault::failed(IMPOSSIBLE))?;
        let of_form = warnings(&backend, &choices);
        let warnings: Vec<_> = admitted.warnings.into_iter().chain(of_form).collect();
        print(&all, &warnings)
    }

    fn print_node_set(self) -> Result<(), Fault> {
        if self.topology == Some(TopologyArg::NodeLocal) {
            let reason = "a node set serves volumes that every node reaches; print a backend of this topology by itself";
            return Err(Fault::flag("--topology", "node-local", reason));
        }
        let documents = config::load(&self.backend)?;
        let backends = documents.into_iter().map(|it| self.facts(it));
        let backends = backends.collect::<Result<Vec<_>, _>>()?;
        let choices = self.choices(Form::Network);
        let all = node_set_manifests(&backends, &choices).map_err(Fault::failed(IMPOSSIBLE))?;
        print(&all, &[])
    }

    /// Admits the plugin of the document for its services and features. It is only queried for its identity: no secrets are needed, the host will
    /// verify its signatures, and its storage need not be reachable from here.
    fn admit(&self, configured: &Configured) -> Result<Admitted, Fault> {
        let cache = self.cache.directory()?;
        let mut copy = configured.clone();
        let is_file = |source: &SecretSource| matches!(source, SecretSource::File(_));
        copy.document.secrets.retain(|_, source| is_file(source));
        let PluginPlace::Registry(place) = &configured.document.plugin.place else {
            return admitted(copy, cache);
        };
        let reference = &place.reference;
        let registry = self.registry.connect_under(reference, configured)?;
        let pulled = wait(pull(&registry))?;
        let pulled = pulled.map_err(Fault::failed(format!("{reference} is not pulled")))?;
        let here = TemporaryDirectory::make("manifests")?;
        let file = here.path().join(PULLED);
        write_whole(&file, &pulled.wasm)?;
        copy.document.plugin.place = PluginPlace::File(file);
        copy.document.plugin.signers = Signers::default();
        admitted(copy, cache)
    }

    fn form(&self, configured: &Configured, capabilities: &Capabilities) -> Form {
        let topology = PluginCapability::VolumeAccessibilityConstraints;
        let mut pools = configured.document.grants.pools.values();
        let is_local = capabilities.plugin.contains(&topology)
            && pools.any(|pool| pool.directory().is_some_and(Path::is_relative));
        match self.topology {
            Some(TopologyArg::NodeLocal) => Form::NodeLocal,
            None if is_local => Form::NodeLocal,
            Some(TopologyArg::Network) | None => Form::Network,
        }
    }

    fn choices(self, form: Form) -> Choices {
        Choices {
            form,
            namespace: self.namespace,
            image: self.image,
            sidecar_registry: self.sidecar_registry,
            fs_type: self.fs_type,
            kubelet_dir: self.kubelet_dir,
            health_port: self.health_port,
            health_address: self.health_address,
            host_network: self.host_network,
            pod_monitor: self.pod_monitor,
            in_node_set: self.in_node_set,
        }
    }
}

fn admitted(configured: Configured, cache: Option<PathBuf>) -> Result<Admitted, Fault> {
    block_on(async {
        let workbench = Workbench::for_identity(configured, cache).await?;
        let admitted = workbench.admit(&mut AdmissionReport::default()).await;
        admitted.map_err(Fault::failed("the plugin cannot serve"))
    })
}
