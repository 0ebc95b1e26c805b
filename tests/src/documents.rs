//! `StorageBackend` documents for tests that need others than those in the directories of the plugins.

mod of_ceph;

pub use of_ceph::{SEALING_SECRET, cephfs, rbd};

use crate::array::{self, Protocol};
use crate::cinder::Credential;
use crate::tls_front::TlsFront;
use serde_json::json;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use xtask::failure::Failure;
use xtask::files;
use xtask::workspace::Workspace;

/// Additional grants of a document: the file system of inline ephemeral volumes.
const TMPFS: &str = "    filesystems: [{ type: tmpfs, maxBytes: 64Mi }]\n";

/// What csi-sanity 5.4 does not know.
pub const OF_SANITY_5_4: &[&str] = &["GET_SNAPSHOT"];

/// Connections of the grant of [`array_at`]: the default.
pub const ARRAY_CONNECTIONS: usize = 8;

/// What plugins/cinder serves.
#[derive(Debug, Clone, Copy)]
pub struct Cloud<'a> {
    /// Where Keystone listens.
    pub keystone: SocketAddr,
    /// Where Cinder listens.
    pub cinder: SocketAddr,
    /// Where Nova listens, if it attaches.
    pub nova: Option<SocketAddr>,
    /// The credential of an account in [`crate::cinder`].
    pub credential: &'a Credential,
    /// Further settings.
    pub settings: &'a [(&'a str, &'a str)],
}

/// Writes a document into `directory` that serves plugins/directory over a pool at an absolute path, which several hosts can share.
pub fn directory_over_pool(directory: &Path, pool: &Path) -> Result<PathBuf, Failure> {
    let component = Workspace::locate()?.component("directory");
    let text = document("directory", "directory.wasmount.io", &component, pool);
    write(directory, "backend", &text)
}

/// Writes a document into `directory` that serves plugins/hostpath over a pool at an absolute path.
pub fn hostpath_over_pool(directory: &Path, pool: &Path) -> Result<PathBuf, Failure> {
    let component = Workspace::locate()?.component("hostpath");
    let text = document("hostpath", "hostpath.wasmount.io", &component, pool);
    write(directory, "backend", &text)
}

/// Writes a document into `directory` that serves plugins/hostpath over a pool, with settings, and without some of CSI's capabilities.
pub fn hostpath_with(
    directory: &Path,
    pool: &Path,
    settings: &[(&str, &str)],
    hidden: &[&str],
) -> Result<PathBuf, Failure> {
    let component = Workspace::locate()?.component("hostpath");
    let mut text = document("hostpath", "hostpath.wasmount.io", &component, pool);
    text.push_str(TMPFS);
    let setting = |(key, value): &(&str, &str)| format!("{key}: {value:?}");
    let settings: Vec<_> = settings.iter().map(setting).collect();
    text.push_str(&format!("  settings: {{ {} }}\n", settings.join(", ")));
    text.push_str(&format!(
        "  csi: {{ hideCapabilities: [{}] }}\n",
        hidden.join(", ")
    ));
    write(directory, "backend", &text)
}

/// Writes a document into `directory` that serves plugins/nfs over a share, with mount options of the pool, and without some of CSI's capabilities.
pub fn nfs(
    directory: &Path,
    source: &str,
    options: &[&str],
    hidden: &[&str],
) -> Result<PathBuf, Failure> {
    let options = options.join(", ");
    let pool = format!("mount: {{ type: nfs4, source: {source:?}, options: [{options}] }}");
    nfs_of(directory, source, &pool, hidden)
}

/// The same over a directory of this machine, as a pool that another one mounted there.
pub fn nfs_over_pool(directory: &Path, source: &str, pool: &Path) -> Result<PathBuf, Failure> {
    nfs_of(directory, source, &format!("path: {pool:?}"), &[])
}

fn nfs_of(directory: &Path, source: &str, pool: &str, hidden: &[&str]) -> Result<PathBuf, Failure> {
    let head = head("nfs", "nfs.wasmount.io")?;
    let hidden = hidden.join(", ");
    let text = format!(
        "{head}  settings: {{ share.nas: {source:?} }}
  grants:
    pools: {{ nas: {{ {pool}, fullCopies: true }} }}
    filesystems: [{{ type: nfs4, sources: [\"{source}/*\"] }}]
  csi: {{ hideCapabilities: [{hidden}] }}
  limits: {{ longIds: true }}
"
    );
    write(directory, "backend", &text)
}

/// Writes a document for a driver of this name, over a pool of the data directory, with a copy of plugins/directory that a test may corrupt; returns
/// the document and the copy.
pub fn directory_of_its_own(directory: &Path, driver: &str) -> Result<(PathBuf, PathBuf), Failure> {
    let component = directory.join(format!("{driver}.wasm"));
    copy_component(&component)?;
    let pool = Path::new("pools").join(driver);
    let text = document(driver, driver, &component, &pool);
    Ok((write(directory, driver, &text)?, component))
}

/// Writes a document for a driver of this name that serves a component from its own path, over a pool of the data directory.
pub fn of_component(directory: &Path, driver: &str, component: &Path) -> Result<PathBuf, Failure> {
    let pool = Path::new("pools").join(driver);
    write(
        directory,
        driver,
        &document(driver, driver, component, &pool),
    )
}

/// The same for a component whose runtime imports all of WASI.
pub fn of_component_with_wasi(
    directory: &Path,
    driver: &str,
    component: &Path,
) -> Result<PathBuf, Failure> {
    let path = of_component(directory, driver, component)?;
    let text = files::read_text(&path)?;
    let text = text.replacen("plugin: {", "plugin: { wasi: full,", 1);
    write(directory, driver, &text)
}

/// Writes a document into `directory` that serves plugins/array for an array at this address, with the credentials of [`crate::array`].
pub fn array_at(directory: &Path, address: SocketAddr) -> Result<PathBuf, Failure> {
    array_with(directory, address, &Protocol::None)
}

/// The same for an array with a data path.
pub fn array_with(
    directory: &Path,
    address: SocketAddr,
    protocol: &Protocol,
) -> Result<PathBuf, Failure> {
    array(
        directory,
        address,
        &[],
        "scheme: http",
        protocol,
        OF_SANITY_5_4,
    )
}

/// The same for an array behind TLS, where the host presents a certificate, without some of CSI's capabilities.
pub fn array_behind(
    directory: &Path,
    front: &TlsFront,
    hidden: &[&str],
) -> Result<PathBuf, Failure> {
    let tls = "tls: { ca: ca, clientCertificate: certificate, clientKey: key }";
    let (address, files) = (front.address(), front.files());
    array(directory, address, &files, tls, &Protocol::None, hidden)
}

fn array(
    directory: &Path,
    address: SocketAddr,
    files: &[(&str, &str)],
    connection: &str,
    protocol: &Protocol,
    hidden: &[&str],
) -> Result<PathBuf, Failure> {
    let (protocol, nodes, attach) = match protocol {
        Protocol::None => ("none", "", String::new()),
        Protocol::Iscsi(portals) => {
            let portals = listed(portals);
            let targets = "\"iqn.2026-01.io.wasmount:*\"";
            let grant = format!("{{ protocol: iscsi, portals: {portals}, targets: [{targets}] }}");
            ("iscsi", "iqn", grant)
        }
        Protocol::NvmeTcp(portals) => {
            let addresses = listed(portals);
            let subsystems = "\"nqn.2026-01.io.wasmount:*\"";
            let grant = format!(
                "{{ protocol: nvme-tcp, addresses: {addresses}, subsystems: [{subsystems}] }}"
            );
            ("nvme-tcp", "nqn", grant)
        }
    };
    let login = [("user", array::USER), ("password", array::PASSWORD)];
    let secrets = secrets(directory, &[&login[..], files].concat())?;
    let hidden = hidden.join(", ");
    let head = head("array", "array.wasmount.io")?;
    let text = format!(
        "{head}  settings: {{ protocol: {protocol} }}
  csi: {{ hideCapabilities: [{hidden}] }}
  secrets: {{ {secrets} }}
  grants:
    network:
      array:
        hosts: [\"{address}\"]
        {connection}
        paths: [\"/api/\"]
        rate: {{ inFlight: {ARRAY_CONNECTIONS} }}
        auth:
          session:
            login: {{ method: POST, path: /api/sessions, json: {{ user: {{ identifier: user }}, password: {{ secret: password }} }} }}
            take: {{ json: /token }}
            give: {{ header: X-Auth-Token }}
            renew: {{ after: 20m, status: [401] }}
            logout: {{ method: DELETE, path: /api/session }}
    filesystems: [{{ type: tmpfs, maxBytes: 1Gi }}]
    nodes: [{nodes}]
    attach: [{attach}]
"
    );
    write(directory, "backend", &text)
}

/// A list of addresses in YAML.
fn listed(addresses: &[SocketAddr]) -> String {
    let quoted = addresses.iter().map(|it| format!("\"{it}\""));
    format!("[{}]", quoted.collect::<Vec<_>>().join(", "))
}

/// Writes a document into `directory` that serves plugins/cinder for a cloud. csi-sanity 5.4 does not know GET_SNAPSHOT.
pub fn cinder_at(directory: &Path, cloud: &Cloud<'_>) -> Result<PathBuf, Failure> {
    let Cloud {
        keystone,
        cinder,
        nova,
        credential,
        settings,
    } = *cloud;
    let secrets = secrets(directory, &[("credential-secret", credential.value())])?;
    let auth = credential.auth(&json!({ "secret": "credential-secret" }));
    let head = head("cinder", "cinder.csi.openstack.org")?;
    let setting = |(key, value): &(&str, &str)| format!(", {key}: {value:?}");
    let settings: String = settings.iter().map(setting).collect();
    let attach = nova.map_or("cinder", |_| "nova");
    let nova = nova.map_or(String::new(), |nova| {
        format!(
            r#"      nova:
        hosts: ["{nova}"]
        scheme: http
        paths: ["/v2.1/servers/"]
        auth: {{ sessionOf: keystone }}
    nodeFacts: [instance-id, zone]
"#
        )
    });
    let text = format!(
        r#"{head}  settings: {{ attach: {attach}{settings} }}
  csi: {{ hideCapabilities: [GET_SNAPSHOT] }}
  secrets: {{ {secrets} }}
  grants:
    devices:
      - {{ facts: {{ by-id: "virtio-*" }}, rescan: true }}
      - {{ facts: {{ by-id: "scsi-0QEMU_QEMU_HARDDISK_*" }}, rescan: true }}
      - {{ facts: {{ by-id: "wwn-0x*" }}, rescan: true }}
    network:
      keystone:
        hosts: ["{keystone}"]
        scheme: http
        paths: ["/v3/auth/tokens"]
        auth:
          session:
            login:
              method: POST
              path: /v3/auth/tokens
              json: {{ auth: {auth} }}
            take: {{ header: X-Subject-Token }}
            give: {{ header: X-Auth-Token }}
            renew: {{ status: [401] }}
      cinder:
        hosts: ["{cinder}"]
        scheme: http
        paths: ["/v3/"]
        auth: {{ sessionOf: keystone }}
{nova}"#
    );
    write(directory, "cinder", &text)
}

/// Writes a document into `directory` that serves plugins/cinder on nodes that are instances, with the facts of the node alone.
pub fn cinder_on_instances(directory: &Path) -> Result<PathBuf, Failure> {
    let head = head("cinder", "cinder.csi.openstack.org")?;
    let text = format!("{head}  grants: {{ nodeFacts: [instance-id, zone] }}\n");
    write(directory, "cinder", &text)
}

/// Copies the built plugins/directory.
pub fn copy_component(to: &Path) -> Result<(), Failure> {
    files::copy(&Workspace::locate()?.component("directory"), to)
}

/// Full copies: temporary directories are seldom on a file system that shares blocks.
fn document(name: &str, driver: &str, component: &Path, pool: &Path) -> String {
    let head = head_of(name, driver, component);
    format!("{head}  grants:\n    pools: {{ volumes: {{ path: {pool:?}, fullCopies: true }} }}\n")
}

/// The first lines of a document that serves a plugin of this repository.
fn head(plugin: &str, driver: &str) -> Result<String, Failure> {
    let component = Workspace::locate()?.component(plugin);
    Ok(head_of(plugin, driver, &component))
}

/// The first lines of a document: all that each must have.
pub(crate) fn head_of(name: &str, driver: &str, component: &Path) -> String {
    format!(
        "apiVersion: wasmount.io/v1alpha1
kind: StorageBackend
metadata: {{ name: {name} }}
spec:
  driverName: {driver}
  plugin: {{ path: {component:?} }}
"
    )
}

/// Writes secrets into `directory`, a file for each; returns what the document says of them.
fn secrets(directory: &Path, values: &[(&str, &str)]) -> Result<String, Failure> {
    let mut named = Vec::new();
    for (name, value) in values {
        files::write(&directory.join(name), value)?;
        named.push(format!("{name}: {{ file: {name} }}"));
    }
    Ok(named.join(", "))
}

fn write(directory: &Path, name: &str, text: &str) -> Result<PathBuf, Failure> {
    let path = directory.join(format!("{name}.yaml"));
    files::write(&path, text).map(|()| path)
}
