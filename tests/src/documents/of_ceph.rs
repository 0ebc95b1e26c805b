//! Documents of the plugins for Ceph.

use super::write;
use crate::ceph;
use std::fs;
use std::path::{Path, PathBuf};
use xtask::failure::Failure;
use xtask::workspace::Workspace;

/// What seals in all tests of cephfs: two hosts have the same.
pub const SEALING_SECRET: &str = "of-tests-0123456789abcdef0123456";

/// How plugins log in to ceph-mgr.
const CEPH_LOGIN: &str = r"        auth:
          session:
            login:
              path: /api/auth
              headers: { Accept: application/vnd.ceph.api.v1.0+json }
              json: { username: { identifier: user }, password: { secret: password } }
            take: { json: /token }
            give: { bearer: true }
";

/// Writes a document into `directory` that serves plugins/cephfs for the Ceph at an address. `key` is that of the user `kubernetes`.
pub fn cephfs(directory: &Path, address: &str, key: &str) -> Result<PathBuf, Failure> {
    let (user, password) = ceph::USER;
    for (name, secret) in [
        ("password", password),
        ("key", key),
        ("user", user),
        ("seal", SEALING_SECRET),
    ] {
        let path = directory.join(name);
        fs::write(&path, secret).map_err(Failure::cannot(format!("write {}", path.display())))?;
    }
    let component = Workspace::locate()?.component("cephfs");
    let (api, monitor, group) = (ceph::API, format!("{address}:6789"), ceph::GROUP);
    let text = format!(
        r#"apiVersion: wasmount.io/v1alpha1
kind: StorageBackend
metadata: {{ name: cephfs }}
spec:
  driverName: cephfs.wasmount.io
  plugin: {{ path: {component:?} }}
  settings: {{ clusterID: tests, monitors: "{monitor}" }}
  secrets: {{ user: {{ file: user }}, password: {{ file: password }}, key: {{ file: key }}, seal: {{ file: seal }} }}
  grants:
    sealing: {{ secret: seal }}
    filesystems: [{{ type: ceph, sources: ["{monitor}:/volumes/{group}/*"], mountOptions: [mds_namespace, rasize] }}]
    network:
      ceph:
        hosts: ["{api}"]
        scheme: http
        paths: ["/api/"]
{CEPH_LOGIN}"#
    );
    write(directory, "cephfs", &text)
}

/// Writes a document into `directory` that serves plugins/rbd for the Ceph on this machine. `key` is that of the user who may map images.
pub fn rbd(directory: &Path, key: &str) -> Result<PathBuf, Failure> {
    let (user, password) = ceph::USER;
    for (name, secret) in [("password", password), ("key", key), ("user", user)] {
        let path = directory.join(name);
        fs::write(&path, secret).map_err(Failure::cannot(format!("write {}", path.display())))?;
    }
    let component = Workspace::locate()?.component("rbd");
    let (api, monitor) = (ceph::API, format!("{}:6789", ceph::LOCAL));
    let (pool, image_user) = (ceph::POOL, ceph::IMAGE_USER);
    let text = format!(
        r#"apiVersion: wasmount.io/v1alpha1
kind: StorageBackend
metadata: {{ name: rbd }}
spec:
  driverName: rbd.wasmount.io
  plugin: {{ path: {component:?} }}
  settings: {{ clusterID: tests, monitors: "{monitor}", pools: {pool}, user: {image_user} }}
  secrets: {{ user: {{ file: user }}, password: {{ file: password }}, key: {{ file: key }} }}
  grants:
    attach: [{{ protocol: rbd, monitors: ["{monitor}"], pools: [{pool}] }}]
    network:
      ceph:
        hosts: ["{api}"]
        scheme: http
        paths: ["/api/auth", "/api/block/image", "/api/health/get_cluster_fsid", "/api/pool"]
{CEPH_LOGIN}"#
    );
    write(directory, "rbd", &text)
}
