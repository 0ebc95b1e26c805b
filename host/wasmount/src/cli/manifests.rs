//! `wasmount manifests`: its flags, and the facts of a backend as input for `wasmount_kubernetes`.
//!
//! The output depends only on those and on the flags. `wasmount_kubernetes::manifests` defines the objects.

mod carried;
mod object;

use super::cluster_values::{image, image_prefix, namespace};
use super::common::plain;
use super::registry::RegistryFlags;
use super::subject::CacheFlags;
use super::transfer::{wait, write_whole};
use crate::config::{self, Configured};
use crate::fault::Fault;
use crate::host::{TemporaryDirectory, Workbench, block_on};
use crate::regular_file;
use crate::visible;
use clap::{ArgGroup, Args, ValueEnum};
use serde_json::json;
use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use wasmount_artifact::{COMPONENT_BYTES, pull};
use wasmount_core::backend::Backend as _;
use wasmount_core::capabilities::{Capabilities, PluginCapability, Profile};
use wasmount_core::document::{PluginPlace, SecretSource, Signers, StorageBackend};
use wasmount_core::driver::Role;
use wasmount_core::node_fact::NodeFact;
use wasmount_core::services::Service;
use wasmount_kubernetes::csi_driver::csi_driver;
use wasmount_kubernetes::manifests::{
    Backend, CONFIG_MAP_BYTES, Choices, Component, Form, Manifest, PLUGIN_IN_CONFIG,
    definition_manifests, manifests, network_peers, path_in_config, secret_object, secret_path,
    shared_manifests, to_yaml, warnings,
};
use wasmount_kubernetes::storage_backend::object_of;
use wasmount_versions::{AdmissionReport, Admitted};

/// Types of file systems whose mounts use no network. Any other may, and then belongs to the network namespace of its mounter.
const LOCAL_TYPES: [&str; 2] = ["tmpfs", "overlay"];

/// The beginning of each object: the comments are within the first one, for programs that split the text.
const BEGINNING: &str = "---\n";

/// The file name of a pulled component.
const PULLED: &str = "component.wasm";

/// Print the Kubernetes manifests of a backend
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("printed").args(["backend", "crd", "shared"]).required(true).multiple(true)))]
#[command(after_help = "\
Example, once for a cluster, and then for a backend with volumes on the nodes:
  $ wasmount manifests --shared
  $ wasmount manifests --backend hostpath.yaml --topology node-local

Apply each with `kubectl apply --server-side -f -`: a component is too large for the annotation that client-side apply stores.

Exit codes: 0, 64 for wrong flags or documents, 1 for any other failure.")]
pub(crate) struct Flags {
    /// A StorageBackend document; its plugin is loaded to read its capabilities
    #[arg(long, value_name = "FILE", env = "WASMOUNT_BACKEND")]
    backend: Option<PathBuf>,

    /// Print only the CustomResourceDefinition of StorageBackend
    #[arg(long)]
    crd: bool,

    /// Print only what all backends share: namespace, definitions, policies. Apply it first, delete it last
    #[arg(long, conflicts_with_all = ["crd", "as_object"])]
    shared: bool,

    /// Print only the StorageBackend object, with absolute paths
    #[arg(long, conflicts_with = "crd")]
    as_object: bool,

    /// Serve the backend from a StorageBackend object: changes take effect without a restart
    #[arg(long)]
    storage_backends: bool,

    /// Where volumes are [default: node-local for a plugin with topology and a pool on each node, else network]
    #[arg(long, env = "WASMOUNT_TOPOLOGY")]
    topology: Option<TopologyArg>,

    /// Container image of Wasmount
    #[arg(long, env = "WASMOUNT_IMAGE", default_value = concat!("wasmount:", env!("CARGO_PKG_VERSION")), value_parser = image)]
    image: String,

    /// Registry of the sidecar images
    #[arg(
        long,
        value_name = "PREFIX",
        env = "WASMOUNT_SIDECAR_REGISTRY",
        default_value = "registry.k8s.io/sig-storage",
        value_parser = image_prefix
    )]
    sidecar_registry: String,

    /// Path of the component in the image, if it is too large for a ConfigMap
    #[arg(long, value_name = "PATH", env = "WASMOUNT_PLUGIN_IN_IMAGE")]
    plugin_in_image: Option<PathBuf>,

    /// Namespace of the pods
    #[arg(long, env = "WASMOUNT_NAMESPACE", default_value = "wasmount-system", value_parser = namespace)]
    namespace: String,

    /// Default file system type
    #[arg(
        long,
        value_name = "TYPE",
        env = "WASMOUNT_FS_TYPE",
        value_parser = ["ext4", "xfs", "btrfs"],
        default_value = "ext4"
    )]
    fs_type: String,

    /// kubelet's root directory on the nodes
    #[arg(
        long,
        value_name = "DIR",
        env = "WASMOUNT_KUBELET_DIR",
        default_value = "/var/lib/kubelet"
    )]
    kubelet_dir: PathBuf,

    /// Port of the health endpoints; unique for each backend with host networking, where a controller takes the next one
    #[arg(
        long,
        value_name = "PORT",
        env = "WASMOUNT_HEALTH_PORT",
        default_value_t = 9809,
        value_parser = clap::value_parser!(u16).range(1..)
    )]
    health_port: u16,

    /// Use host networking for the node pods
    #[arg(long, env = "WASMOUNT_HOST_NETWORK")]
    host_network: bool,

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
    let impossible = "no manifests can be printed";
    if flags.shared {
        let all = shared_manifests(&flags.namespace).map_err(Fault::failed(impossible))?;
        return print(&all, &[]);
    }
    let Some(file) = flags.backend.clone().filter(|_| !flags.crd) else {
        let all = definition_manifests().map_err(Fault::failed(impossible))?;
        return print(&all, &[]);
    };
    plain("--kubelet-dir", &flags.kubelet_dir)?;
    let configured = config::load_one(&file)?;
    if flags.as_object {
        let text = read_again(&file)?;
        let (object, warnings) = object::of_folder(&text, &configured.folder)?;
        return print(&[object], &warnings);
    }
    if !flags.storage_backends {
        config::of_one_host(std::slice::from_ref(&configured))?;
    }
    let admitted = flags.admit(&configured)?;
    let (offer, hidden) = (admitted.backend.offer(), &configured.document.hidden);
    let capabilities = Capabilities::derive(offer, Role::All, Profile::V1_12, hidden);
    let form = flags.form(&configured, &capabilities);
    let registers_nodes = offer.has(Service::NodeRegister);
    let backend = Backend {
        registers_nodes,
        ..flags.facts(&file, configured, capabilities)?
    };
    let choices = flags.choices(form);
    let all = manifests(&backend, &choices).map_err(Fault::failed(impossible))?;
    let of_form = warnings(&backend, &choices);
    let warnings: Vec<_> = admitted.warnings.into_iter().chain(of_form).collect();
    print(&all, &warnings)
}

/// The warnings are comments of the YAML as well: whoever reads the file later did not see standard error.
fn print(all: &[Manifest], warnings: &[String]) -> Result<(), Fault> {
    let yaml = to_yaml(all).map_err(Fault::failed("no manifests can be printed"))?;
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

fn read_again(file: &Path) -> Result<String, Fault> {
    std::fs::read_to_string(file).map_err(Fault::failed("the document cannot be read again"))
}

impl Flags {
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

    fn facts(
        &self,
        file: &Path,
        configured: Configured,
        capabilities: Capabilities,
    ) -> Result<Backend, Fault> {
        let Configured {
            document, folder, ..
        } = configured;
        let csi_driver = csi_driver(&document.driver_name, &capabilities, &document.csi_driver)
            .map_err(Fault::failed("the document contradicts its plugin"))?;
        let mut files = carried::Files::new();
        let (component, plugin) = match (&self.plugin_in_image, &document.plugin.place) {
            (Some(path), _) => (Component::InImage, path.display().to_string()),
            // Hosts pull it themselves.
            (None, PluginPlace::Registry(_)) => (Component::InImage, String::new()),
            (None, PluginPlace::File(path)) => {
                let path = folder.join(path);
                let unreadable = format!(
                    "the component {} does not fit into a ConfigMap of {CONFIG_MAP_BYTES} bytes",
                    path.display()
                );
                let wasm = regular_file::read(&path, COMPONENT_BYTES);
                let wasm = wasm.map_err(Fault::failed(unreadable))?;
                files = carried::signatures(&path)?;
                (Component::InConfigMap(wasm), PLUGIN_IN_CONFIG.to_owned())
            }
        };
        let (secrets, named_secrets) = self.secrets(&document)?;
        let mut pools = document.grants.pools.values();
        let mounts_pools = pools.any(|pool| pool.mount().is_some());
        let mut portable = object::read(&read_again(file)?)?;
        files.extend(carried::named_files(&mut portable, &folder)?);
        let object = self.storage_backends.then(|| {
            let path = match &component {
                Component::InConfigMap(_) => path_in_config(PLUGIN_IN_CONFIG),
                Component::InImage => plugin.clone(),
            };
            let (namespace, name) = (&self.namespace, secret_object(&document.name));
            let source = |key: &str| json!({ "secret": { "namespace": namespace, "name": name, "key": key } });
            object_of(object::in_pods(portable.clone(), &path, &secrets, source))
        });
        let file_of = |name: &str| json!({ "file": secret_path(name) });
        let in_pods = object::in_pods(portable, &plugin, &secrets, file_of);
        let unwritable = Fault::failed("the document cannot be written");
        let facts = document.grants.facts();
        let has_fact = |is_such: fn(NodeFact) -> bool| facts.iter().any(|fact| is_such(*fact));
        Ok(Backend {
            object,
            document: serde_saphyr::to_string(&in_pods).map_err(unwritable)?,
            name: document.name,
            driver: document.driver_name,
            capabilities,
            csi_driver,
            component,
            files,
            secrets,
            named_secrets,
            mounts_from_network: document
                .grants
                .filesystems
                .iter()
                .any(|grant| !LOCAL_TYPES.contains(&grant.fs_type.as_str()))
                || mounts_pools
                // A session belongs to the network namespace of the one that logged in.
                || !document.grants.attach.is_empty(),
            mounts_pools,
            network: network_peers(&document.grants.network),
            uses_devices: !document.grants.devices.is_empty()
                || !document.grants.attach.is_empty()
                || has_fact(NodeFact::is_of_instance),
            attaches_disks: !document.grants.attach.is_empty(),
            uses_metadata: has_fact(NodeFact::is_of_instance),
            reads_etc: has_fact(is_of_etc),
            reads_node_network: has_fact(is_of_network),
            tells_facts: !document.grants.nodes.is_empty(),
            registers_nodes: false,
            pools: document
                .grants
                .pools
                .into_iter()
                .filter_map(|(name, pool)| Some((name, pool.directory()?.to_owned())))
                .collect(),
        })
    }

    /// The secrets that pods find in one Secret, and the Secrets that the document itself names. Without an object no host reads a Secret from the
    /// API server.
    fn secrets(&self, document: &StorageBackend) -> Result<(Vec<String>, BTreeSet<String>), Fault> {
        if !self.storage_backends {
            return Ok((document.secrets.keys().cloned().collect(), BTreeSet::new()));
        }
        let credentials = match &document.plugin.place {
            PluginPlace::Registry(place) => place.credentials.as_ref(),
            PluginPlace::File(_) => None,
        };
        let (mut in_one, mut named) = (Vec::new(), BTreeSet::new());
        let all = document
            .secrets
            .iter()
            .map(|(key, source)| (Some(key), source));
        for (key, source) in all.chain(credentials.map(|source| (None, source))) {
            let SecretSource::Object {
                namespace, name, ..
            } = source
            else {
                in_one.extend(key.cloned());
                continue;
            };
            if *namespace != self.namespace {
                let reason = format!(
                    "the document's Secret {name} is in {namespace}: pods are given Secrets of their own namespace alone"
                );
                return Err(Fault::flag("--namespace", &self.namespace, reason));
            }
            named.insert(name.clone());
        }
        Ok((in_one, named))
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
            host_network: self.host_network,
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

/// Whether a fact is in a file below `/etc` of the node.
fn is_of_etc(fact: NodeFact) -> bool {
    matches!(fact, NodeFact::Iqn | NodeFact::Nqn)
}

/// Whether only a process on the network of the node sees a fact.
fn is_of_network(fact: NodeFact) -> bool {
    matches!(fact, NodeFact::Addresses | NodeFact::Multipath)
}
