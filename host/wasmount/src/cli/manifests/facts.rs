//! The facts of a document that manifests depend on.

use super::{Flags, carried, object};
use crate::config::Configured;
use crate::fault::Fault;
use crate::regular_file;
use k8s_openapi::api::storage::v1::CSIDriver;
use serde_json::json;
use std::collections::BTreeSet;
use std::path::Path;
use wasmount_artifact::COMPONENT_BYTES;
use wasmount_core::capabilities::Capabilities;
use wasmount_core::document::{PluginPlace, SecretSource, StorageBackend};
use wasmount_core::node_fact::NodeFact;
use wasmount_kubernetes::manifests::{
    Backend, CERTIFICATES_IN_CONFIG, CONFIG_MAP_BYTES, PLUGIN_IN_CONFIG, network_peers,
    path_in_config, secret_object, secret_path,
};
use wasmount_kubernetes::storage_backend::object_of;

/// Types of file systems whose mounts use no network. Any other may, and then belongs to the network namespace of its mounter.
const LOCAL_TYPES: [&str; 2] = ["tmpfs", "overlay"];

impl Flags {
    /// The facts of a document. Those of its plugin are still to be filled in.
    pub(super) fn facts(&self, configured: Configured) -> Result<Backend, Fault> {
        let Configured {
            document,
            folder,
            file,
        } = configured;
        let mut files = carried::Files::new();
        let (component, plugin) = match (&self.plugin_in_image, &document.plugin.place) {
            // Its documents are the mounters', which read no plugin.
            (_, PluginPlace::File(path)) if self.node_set => (None, path.display().to_string()),
            (Some(path), _) => (None, path.display().to_string()),
            // Hosts pull it themselves.
            (None, PluginPlace::Registry(_)) => (None, String::new()),
            (None, PluginPlace::File(path)) => {
                let path = folder.join(path);
                let unreadable = format!(
                    "the component {} does not fit into a ConfigMap of {CONFIG_MAP_BYTES} bytes",
                    path.display()
                );
                let wasm = regular_file::read(&path, COMPONENT_BYTES);
                let wasm = wasm.map_err(Fault::failed(unreadable))?;
                files = carried::signatures(&path)?;
                (Some(wasm), PLUGIN_IN_CONFIG.to_owned())
            }
        };
        let (secrets, named_secrets) = self.secrets(&document)?;
        let mut pools = document.grants.pools.values();
        let mounts_pools = pools.any(|pool| pool.mount().is_some());
        let mut portable = object::read(&read_again(&file)?)?;
        let certificates = match self.node_set || self.in_node_set {
            // Pods of the node set have those of all backends in one directory.
            true => format!("{}-{CERTIFICATES_IN_CONFIG}", document.name),
            false => CERTIFICATES_IN_CONFIG.to_owned(),
        };
        files.extend(carried::named_files(&mut portable, &folder, &certificates)?);
        let object = self.follows().then(|| {
            let path = match &component {
                Some(_) => path_in_config(PLUGIN_IN_CONFIG),
                None => plugin.clone(),
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
            capabilities: Capabilities::default(),
            csi_driver: CSIDriver::default(),
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

    /// Whether the hosts serve an object.
    fn follows(&self) -> bool {
        self.storage_backends || self.in_node_set || self.node_set
    }

    /// The secrets that pods find in one Secret, and the Secrets that the document itself names. Without an object no host reads a Secret from the
    /// API server.
    fn secrets(&self, document: &StorageBackend) -> Result<(Vec<String>, BTreeSet<String>), Fault> {
        if !self.follows() {
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
}

/// The text of a document that was read before.
pub(super) fn read_again(file: &Path) -> Result<String, Fault> {
    std::fs::read_to_string(file).map_err(Fault::failed("the document cannot be read again"))
}

/// Whether a fact is in a file below `/etc` of the node.
fn is_of_etc(fact: NodeFact) -> bool {
    matches!(fact, NodeFact::Iqn | NodeFact::Nqn)
}

/// Whether only a process on the network of the node sees a fact.
fn is_of_network(fact: NodeFact) -> bool {
    matches!(fact, NodeFact::Addresses | NodeFact::Multipath)
}
