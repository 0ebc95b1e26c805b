//! `wasmount manifests`: its flags, and the facts of a backend as input for `wasmount_kubernetes`.
//!
//! The output depends only on those and on the flags. `wasmount_kubernetes::manifests` defines the objects.

mod carried;
mod object;

use super::cluster_words::{FsType, image, image_prefix, namespace};
use super::common::plain;
use super::registry::RegistryFlags;
use super::transfer::{wait, write_whole};
use crate::config::{self, Configured};
use crate::fault::Fault;
use crate::host::{self, Inspected, Place};
use crate::regular_file;
use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use wasmount_artifact::pull;
use wasmount_core::capabilities::{Capabilities, PluginCapability, Profile};
use wasmount_core::document::{PluginPlace, SecretSource, Signers, StorageBackend};
use wasmount_core::driver::Role;
use wasmount_kubernetes::csi_driver::csi_driver;
use wasmount_kubernetes::manifests::{
    Backend, CONFIG_MAP_BYTES, Choices, Component, Form, Manifest, PLUGIN_IN_CONFIG,
    definition_manifests, manifests, path_in_config, secret_path, shared_manifests, to_yaml,
    warnings,
};

/// Largest component that is read, in bytes; a little more than can be shipped, so that the error can name the size.
const COMPONENT_BYTES: u64 = 64 << 20;

/// The file name of a pulled component.
const PULLED: &str = "component.wasm";

/// Print the Kubernetes manifests of a backend
#[derive(Debug, Args)]
#[command(after_help = "\
Example, once a cluster, and then for a backend whose volumes lie on the nodes:
  $ wasmount manifests --shared
  $ wasmount manifests --backend hostpath.yaml --topology node-local

Apply each with `kubectl apply --server-side -f -`: a component is too large for the annotation that the other form of apply leaves.

Exit codes: 0, 64 for wrong flags or documents, 1 for any other failure.")]
pub(crate) struct Flags {
    /// A StorageBackend document; its plugin is loaded to read its capabilities
    #[arg(
        long,
        value_name = "FILE",
        env = "WASMOUNT_BACKEND",
        required_unless_present_any = ["crd", "shared"]
    )]
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
    #[arg(long, value_enum, env = "WASMOUNT_TOPOLOGY")]
    topology: Option<TopologyWord>,

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
        value_enum,
        default_value = "ext4"
    )]
    fs_type: FsType,

    /// kubelet's root directory on the nodes
    #[arg(
        long,
        value_name = "DIR",
        env = "WASMOUNT_KUBELET_DIR",
        default_value = "/var/lib/kubelet"
    )]
    kubelet_dir: PathBuf,

    /// Port of the health endpoints; unique for each backend with host networking
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
}

/// The forms as words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum TopologyWord {
    /// A volume is on the node that created it: controller and node services on each node
    NodeLocal,
    /// Every node reaches every volume: one controller, and a node service on each node
    Network,
}

/// Prints the manifests.
pub(crate) fn run(flags: Flags) -> Result<(), Fault> {
    let impossible = "no manifests can be printed";
    if flags.shared {
        let all = shared_manifests(&flags.namespace).map_err(Fault::room(impossible))?;
        return print(&all);
    }
    let Some(file) = flags.backend.clone().filter(|_| !flags.crd) else {
        let all = definition_manifests().map_err(Fault::room(impossible))?;
        return print(&all);
    };
    plain("--kubelet-dir", &flags.kubelet_dir)?;
    let mut configured = config::load(std::slice::from_ref(&file))?;
    let Some(configured) = configured.pop() else {
        return Ok(());
    };
    if flags.as_object {
        let text = read_again(&file)?;
        return print(&[object::of_folder(&text, &configured.folder)?]);
    }
    let Inspected {
        offer,
        warnings: said,
    } = flags.look(&configured)?;
    let hidden = &configured.document.hidden;
    let capabilities = Capabilities::derive(&offer, Role::All, Profile::V1_12, hidden);
    let form = flags.form(&configured, &capabilities);
    let backend = flags.facts(&file, configured, capabilities)?;
    let choices = flags.choices(form);
    let all = manifests(&backend, &choices).map_err(Fault::room(impossible))?;
    for warning in said.into_iter().chain(warnings(&backend, &choices)) {
        // A closed standard error must not prevent the output of the YAML.
        let _ = writeln!(io::stderr(), "wasmount: warning: {warning}");
    }
    print(&all)
}

fn print(all: &[Manifest]) -> Result<(), Fault> {
    let text = to_yaml(all).map_err(Fault::room("no manifests can be printed"))?;
    let printed = io::stdout().write_all(text.as_bytes());
    printed.map_err(Fault::room("the manifests cannot be printed"))
}

fn read_again(file: &Path) -> Result<String, Fault> {
    std::fs::read_to_string(file).map_err(Fault::room("the document cannot be read again"))
}

impl Flags {
    /// The plugin's services and features. It is only asked for its identity: no secrets are needed, and the host will verify its signatures.
    fn look(&self, configured: &Configured) -> Result<Inspected, Fault> {
        let mut looked_at = configured.clone();
        let is_file = |source: &SecretSource| matches!(source, SecretSource::File(_));
        looked_at
            .document
            .secrets
            .retain(|_, source| is_file(source));
        let PluginPlace::Registry(place) = &configured.document.plugin.place else {
            return host::inspect(&looked_at);
        };
        let reference = &place.reference;
        let registry = self.registry.connect_under(reference, configured)?;
        let pulled = wait(pull(&registry))?;
        let pulled = pulled.map_err(Fault::room(format!("{reference} is not pulled")))?;
        let here =
            Place::make("manifests").map_err(Fault::room("no temporary directory can be made"))?;
        let file = here.path().join(PULLED);
        write_whole(&file, &pulled.wasm)?;
        looked_at.document.plugin.place = PluginPlace::File(file);
        looked_at.document.plugin.signers = Signers::default();
        host::inspect(&looked_at)
    }

    fn form(&self, configured: &Configured, capabilities: &Capabilities) -> Form {
        let topology = PluginCapability::VolumeAccessibilityConstraints;
        let mut pools = configured.document.grants.pools.values();
        match self.topology {
            Some(TopologyWord::NodeLocal) => Form::NodeLocal,
            Some(TopologyWord::Network) => Form::Network,
            None if capabilities.plugin.contains(&topology)
                && pools.any(|pool| pool.path.is_relative()) =>
            {
                Form::NodeLocal
            }
            None => Form::Network,
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
            .map_err(Fault::room("the document contradicts its plugin"))?;
        let mut files = carried::Files::new();
        let (component, plugin) = match &self.plugin_in_image {
            Some(path) => (Component::InImage, path.clone()),
            // Hosts pull it themselves.
            None if matches!(document.plugin.place, PluginPlace::Registry(_)) => {
                (Component::InImage, PathBuf::new())
            }
            None => {
                let PluginPlace::File(path) = &document.plugin.place else {
                    return Err(Fault::room("the document names no component")(
                        "write `plugin.path` or `plugin.reference`",
                    ));
                };
                let path = folder.join(path);
                let read = regular_file::read(&path, COMPONENT_BYTES);
                let unreadable = format!(
                    "the component {} does not fit into a ConfigMap of {CONFIG_MAP_BYTES} bytes",
                    path.display()
                );
                let wasm = read.map_err(|refused| Fault::room(unreadable)(refused.to_string()))?;
                files = carried::signatures(&path)?;
                (
                    Component::InConfigMap(wasm),
                    PathBuf::from(PLUGIN_IN_CONFIG),
                )
            }
        };
        let (secrets, named_secrets) = self.secrets(&document)?;
        let mut portable = object::read(&read_again(file)?)?;
        files.extend(carried::named_files(&mut portable, &folder)?);
        let object = match (&component, self.storage_backends) {
            (_, false) => None,
            (component, true) => {
                let path = match component {
                    Component::InConfigMap(_) => path_in_config(PLUGIN_IN_CONFIG),
                    Component::InImage => plugin.display().to_string(),
                };
                let (name, namespace) = (&document.name, &self.namespace);
                let portable = portable.clone();
                let in_pods = object::in_pods(portable, &path, name, namespace, secrets.iter());
                Some(in_pods)
            }
        };
        Ok(Backend {
            object,
            document: in_the_pod(portable, &plugin, secrets.iter())?,
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
                .any(|grant| grant.fs_type != "tmpfs"),
            uses_devices: !document.grants.devices.is_empty(),
            pools: document
                .grants
                .pools
                .into_iter()
                .map(|(name, pool)| (name, pool.path))
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
            match source {
                SecretSource::File(_) => in_one.extend(key.cloned()),
                SecretSource::Object {
                    namespace, name, ..
                } if *namespace == self.namespace => {
                    named.insert(name.clone());
                }
                SecretSource::Object {
                    namespace, name, ..
                } => {
                    return Err(Fault::Flag {
                        flag: "--namespace",
                        value: self.namespace.clone(),
                        reason: format!(
                            "the document's Secret {name} is in {namespace}: pods are given Secrets of their own namespace alone"
                        ),
                    });
                }
            }
        }
        Ok((in_one, named))
    }

    fn choices(self, form: Form) -> Choices {
        Choices {
            form,
            namespace: self.namespace,
            image: self.image,
            sidecar_registry: self.sidecar_registry,
            fs_type: self.fs_type.word().to_owned(),
            kubelet_dir: self.kubelet_dir,
            health_port: self.health_port,
            host_network: self.host_network,
        }
    }
}

/// The document with the paths that plugin and secrets have in a pod. Everything else is unchanged, except for comments.
fn in_the_pod<'a>(
    mut document: Value,
    plugin: &Path,
    secrets: impl Iterator<Item = &'a String>,
) -> Result<String, Fault> {
    if let Some(path) = document.pointer_mut("/spec/plugin/path") {
        *path = json!(plugin.display().to_string());
    }
    let files = document.pointer_mut("/spec/secrets");
    if let Some(Value::Object(files)) = files {
        for name in secrets {
            files.insert(name.clone(), json!({ "file": secret_path(name) }));
        }
    }
    serde_saphyr::to_string(&document).map_err(Fault::room("the document cannot be written"))
}
