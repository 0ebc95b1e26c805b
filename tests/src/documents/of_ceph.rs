//! Documents of the plugins for Ceph.

use super::{head, secrets, write};
use crate::ceph;
use std::path::{Path, PathBuf};
use xtask::failure::Failure;

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
    let login = [("user", user), ("password", password)];
    let others = [("key", key), ("seal", SEALING_SECRET)];
    let secrets = secrets(directory, &[login, others].concat())?;
    let head = head("cephfs", "cephfs.wasmount.io")?;
    let (api, monitor, group) = (ceph::API, format!("{address}:6789"), ceph::GROUP);
    let text = format!(
        r#"{head}  settings: {{ clusterID: tests, monitors: "{monitor}" }}
  secrets: {{ {secrets} }}
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
    let values = [("user", user), ("password", password), ("key", key)];
    let secrets = secrets(directory, &values)?;
    let head = head("rbd", "rbd.wasmount.io")?;
    let (api, monitor) = (ceph::API, format!("{}:6789", ceph::LOCAL));
    let (pool, image_user) = (ceph::POOL, ceph::IMAGE_USER);
    let text = format!(
        r#"{head}  settings: {{ clusterID: tests, monitors: "{monitor}", pools: {pool}, user: {image_user} }}
  secrets: {{ {secrets} }}
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
