//! The plan of a volume: what it is, recorded in `node-stage` or `node-publish`. After the call has succeeded, the host checks the plan against the
//! grants, writes it to its journal and executes it; teardown later needs no call of the backend.
//!
//! A plan does not mount, format or attach. Access type, file system check, read-only mode, expansion and teardown are the host's.

use crate::attributes;
use crate::error::Error;
use crate::imports;
use crate::pool::{self, Pool};
use crate::secrets::Scope;

pub use crate::bindings::imports::wasmount::csi::node_plan::File;
pub use crate::bindings::others::wasmount::csi::node_iscsi::Path as IscsiPath;
pub use crate::bindings::others::wasmount::csi::node_rbd::{
    Access as ImageAccess, Image as RbdImage, User as CephxUser,
};

/// Records the steps of the current call: one source, then how it is to be used. Only the SDK can create a plan, so a step outside of `node_stage`
/// and `node_publish` does not compile:
///
/// ```compile_fail,E0451
/// let plan = wasmount_guest::Plan { _only_the_sdk: () };
/// ```
#[derive(Debug)]
pub struct Plan {
    _only_the_sdk: (),
}

impl Plan {
    pub(crate) const fn of_this_call() -> Self {
        Self { _only_the_sdk: () }
    }

    /// Source: a tree of a pool.
    pub fn directory(&self, pool: &Pool, path: &str) -> Result<(), Error> {
        imports::node_plan::directory(pool.name(), path)
    }

    /// Source: an image of a pool.
    pub fn image(&self, pool: &Pool, path: &str) -> Result<(), Error> {
        imports::node_plan::image(pool.name(), path)
    }

    /// Source: the content at this path of a pool, tree or image; `not-found` if there is none.
    pub fn content(&self, pool: &Pool, path: &str) -> Result<(), Error> {
        match pool.stat(path)?.map(|entry| entry.kind) {
            Some(pool::Kind::Image) => self.image(pool, path),
            Some(pool::Kind::Directory) => self.directory(pool, path),
            _ => Err(Error::not_found(format!(
                "pool `{}` of this node does not hold the volume",
                pool.name()
            ))),
        }
    }

    /// Source: the block device of the node that matches all facts (`by-id`, `by-path`, `serial`, `wwid`, `nguid`, `partition`). The host waits for
    /// it up to `wait_ms`.
    pub fn device(&self, facts: &[(&str, &str)], wait_ms: u32) -> Result<(), Error> {
        imports::node_plan::device(&attributes::owned(facts), wait_ms)
    }

    /// Source: the block device of the node that matches all facts of one alternative, where its name depends on the machine. At most 8; all lead to
    /// the same device, or to none. `rescan`: the node asks its SCSI hosts for new disks meanwhile, which the document must grant.
    pub fn any_device(
        &self,
        alternatives: &[&[(&str, &str)]],
        rescan: bool,
        wait_ms: u32,
    ) -> Result<(), Error> {
        let alternatives = alternatives.iter().map(|facts| attributes::owned(facts));
        imports::node_plan::any_device(&alternatives.collect::<Vec<_>>(), rescan, wait_ms)
    }

    /// Source: a disk behind iSCSI targets, which the host attaches. `wwid` is its identity as the kernel shows it, such as `naa.6001405…`: ask the
    /// storage system for it. See `node-iscsi` of the contract.
    pub fn iscsi(
        &self,
        paths: &[IscsiPath],
        wwid: &str,
        minimum_paths: u32,
        wait_ms: u32,
    ) -> Result<(), Error> {
        imports::node_iscsi::iscsi(paths, wwid, minimum_paths, wait_ms)
    }

    /// CHAP of the step [`Plan::iscsi`], after it: user and password by the names of secrets. A [`Scope::Backend`] name must not come from a request.
    pub fn chap(&self, scope: Scope, user: &str, password: &str) -> Result<(), Error> {
        imports::node_iscsi::chap(scope, user, password)
    }

    /// CHAP by which the target proves who it is, besides [`Plan::chap`].
    pub fn mutual_chap(&self, scope: Scope, user: &str, password: &str) -> Result<(), Error> {
        imports::node_iscsi::mutual_chap(scope, user, password)
    }

    /// Source: a namespace of an NVMe subsystem over TCP, which the host attaches. See `node-nvme` of the contract.
    pub fn nvme(
        &self,
        addresses: &[&str],
        subsystem: &str,
        namespace_id: &str,
        minimum_paths: u32,
        wait_ms: u32,
    ) -> Result<(), Error> {
        let addresses = owned(addresses);
        imports::node_nvme::nvme(&addresses, subsystem, namespace_id, minimum_paths, wait_ms)
    }

    /// DH-HMAC-CHAP of the step [`Plan::nvme`], after it: keys by the names of secrets.
    pub fn dhchap(
        &self,
        scope: Scope,
        host_key: &str,
        controller_key: Option<&str>,
    ) -> Result<(), Error> {
        imports::node_nvme::dhchap(scope, host_key, controller_key)
    }

    /// Source: an image of a Ceph cluster, which the node's kernel maps, by the addresses and ports of its monitors. [`Plan::cephx`] must follow. See
    /// `node-rbd` of the contract.
    pub fn rbd(
        &self,
        monitors: &[&str],
        image: &RbdImage,
        access: ImageAccess,
    ) -> Result<(), Error> {
        imports::node_rbd::rbd(&owned(monitors), image, access)
    }

    /// Who maps the image of the step [`Plan::rbd`], after it: a user, and the name of the secret that is its key.
    pub fn cephx(&self, user: &CephxUser, scope: Scope, key: &str) -> Result<(), Error> {
        imports::node_rbd::cephx(user, scope, key)
    }

    /// Encrypts the block device that the source is, after it, by LUKS2: the passphrase is the value of the secret of this name. See `node-encryption` of
    /// the contract.
    pub fn luks(&self, scope: Scope, key: &str) -> Result<(), Error> {
        imports::node_encryption::luks(scope, key)
    }

    /// Source: a file system that the kernel mounts by name, such as `nfs4`. `secret_options`: option name to the name of a request secret.
    pub fn filesystem(
        &self,
        fs_type: &str,
        source: &str,
        options: &[&str],
        secret_options: &[(&str, &str)],
    ) -> Result<(), Error> {
        imports::node_plan::filesystem(
            fs_type,
            source,
            &owned(options),
            &attributes::owned(secret_options),
        )
    }

    /// More secret options of the step [`Plan::filesystem`], after it: option name to the name of a secret of the backend's document. The component
    /// never sees the value. Names that come from a request must not be passed here: the administrator's secrets are not the user's to choose.
    pub fn backend_secret_options(&self, options: &[(&str, &str)]) -> Result<(), Error> {
        imports::node_plan::backend_secret_options(&attributes::owned(options))
    }

    /// More secret options of the step [`Plan::filesystem`], after it: option name to a text of [`crate::sealed_secrets::seal`] from the volume's context.
    /// The component never sees the value.
    pub fn sealed_secret_options(&self, options: &[(&str, &str)]) -> Result<(), Error> {
        imports::sealed_secrets::secret_options(&attributes::owned(options))
    }

    /// Source: an empty file system in memory.
    pub fn tmpfs(&self, size_bytes: Option<u64>) -> Result<(), Error> {
        imports::node_plan::tmpfs(size_bytes)
    }

    /// Source: small files on a file system in memory, replaced all at once.
    pub fn files(&self, files: &[File]) -> Result<(), Error> {
        imports::node_plan::files(files)
    }

    /// The file system to create where the request names none.
    pub fn default_fs_type(&self, fs_type: &str) -> Result<(), Error> {
        imports::node_plan::default_fs_type(fs_type)
    }

    /// Mount options, in addition to those of the request.
    pub fn mount_options(&self, options: &[&str]) -> Result<(), Error> {
        imports::node_plan::mount_options(&owned(options))
    }

    /// A note that is kept with the volume, and passed to [`crate::NodeHooks`].
    pub fn note(&self, key: &str, value: &str) -> Result<(), Error> {
        imports::node_plan::note(key, value)
    }
}

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;
    use crate::testing::{self, Source};

    #[test]
    fn content_is_recorded_as_what_it_is_or_not_found() {
        testing::reset();
        testing::add_pool("volumes", 1000);
        let pool = Pool::named("volumes");
        pool.create_image("disk", 1).unwrap();
        pool.create_directory("tree").unwrap();
        let place = |path: &str| ("volumes".to_owned(), path.to_owned());
        let recorded = |path| testing::record(|plan| plan.content(&pool, path));
        let (in_pool, path) = place("disk");
        let image = Source::Image {
            pool: in_pool,
            path,
        };
        assert_eq!(recorded("disk").map(|plan| plan.source), Ok(image));
        let (in_pool, path) = place("tree");
        let directory = Source::Directory {
            pool: in_pool,
            path,
        };
        assert_eq!(recorded("tree").map(|plan| plan.source), Ok(directory));
        let missing = recorded("none").map_err(|error| error.code);
        assert_eq!(missing.map(drop), Err(Code::NotFound));
    }
}
