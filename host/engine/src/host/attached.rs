//! Imports `node-iscsi`, `node-nvme`, `node-rbd` and `node-encryption`: sources of a plan that the mounter attaches, encryption, and their secrets by name. They are
//! only recorded.

use super::Answer;
use crate::bindings::imported::secrets::Scope;
use crate::bindings::imported::{node_encryption, node_iscsi, node_nvme, node_rbd};
use crate::convert::Convert;
use crate::invocation::Invocation;
use wasmount_core::blame::{Blame, Owner};
use wasmount_core::plan::attached::{Chap, Dhchap, IscsiPath, SecretScope};
use wasmount_core::plan::rbd::{Cephx, CephxUser, ImageAccess};
use wasmount_core::plan::{Iscsi, Luks, Nvme, Rbd, Source};

impl node_iscsi::Host for Invocation {
    fn iscsi(
        &mut self,
        paths: Vec<node_iscsi::Path>,
        wwid: String,
        minimum_paths: u32,
        wait_ms: u32,
    ) -> Answer<()> {
        let paths = paths.into_iter().map(|path| IscsiPath {
            portal: path.portal,
            target: path.target,
            lun: path.lun,
        });
        self.recorder.source(Source::Iscsi(Iscsi {
            paths: paths.collect(),
            wwid,
            minimum_paths,
            wait_ms,
            chap: None,
            mutual_chap: None,
        }))
    }

    fn chap(&mut self, scope: Scope, user: String, password: String) -> Answer<()> {
        self.set_chap("chap", scope, user, password, |iscsi| &mut iscsi.chap)
    }

    fn mutual_chap(&mut self, scope: Scope, user: String, password: String) -> Answer<()> {
        self.set_chap("mutual-chap", scope, user, password, |iscsi| {
            &mut iscsi.mutual_chap
        })
    }
}

impl node_nvme::Host for Invocation {
    fn nvme(
        &mut self,
        addresses: Vec<String>,
        subsystem: String,
        namespace_id: String,
        minimum_paths: u32,
        wait_ms: u32,
    ) -> Answer<()> {
        self.recorder.source(Source::Nvme(Nvme {
            addresses,
            subsystem,
            namespace_id,
            minimum_paths,
            wait_ms,
            dhchap: None,
        }))
    }

    fn dhchap(
        &mut self,
        scope: Scope,
        host_key: String,
        controller_key: Option<String>,
    ) -> Answer<()> {
        const STEP: &str = "dhchap";
        let names = [Some(host_key.as_str()), controller_key.as_deref()];
        let names: Vec<&str> = names.into_iter().flatten().collect();
        let scope = self.checked_scope(STEP, scope, &names)?;
        let Some(Source::Nvme(nvme)) = &mut self.recorder.source else {
            return Err(self.recorder.misplaced(STEP, "nvme"));
        };
        nvme.dhchap = Some(Dhchap {
            scope,
            host_key,
            controller_key,
        });
        Ok(())
    }
}

impl node_rbd::Host for Invocation {
    fn rbd(
        &mut self,
        monitors: Vec<String>,
        image: node_rbd::Image,
        access: node_rbd::Access,
    ) -> Answer<()> {
        self.recorder.source(Source::Rbd(Rbd {
            monitors,
            cluster: image.cluster,
            pool: image.pool,
            namespace: image.namespace,
            image: image.name,
            image_id: image.id,
            access: match access {
                node_rbd::Access::Shared => ImageAccess::Shared,
                node_rbd::Access::Exclusive => ImageAccess::Exclusive,
                node_rbd::Access::ReadOnly => ImageAccess::ReadOnly,
            },
            cephx: None,
        }))
    }

    fn cephx(&mut self, user: node_rbd::User, scope: Scope, key: String) -> Answer<()> {
        const STEP: &str = "cephx";
        let (user, scope) = match user {
            node_rbd::User::Name(user) => {
                self.recorder.check(STEP, &[&user])?;
                let scope = self.checked_scope(STEP, scope, &[&key])?;
                (CephxUser::Name(user), scope)
            }
            node_rbd::User::Secret(user) => {
                let scope = self.checked_scope(STEP, scope, &[&user, &key])?;
                (CephxUser::Secret(user), scope)
            }
        };
        let Some(Source::Rbd(rbd)) = &mut self.recorder.source else {
            return Err(self.recorder.misplaced(STEP, "rbd"));
        };
        rbd.cephx = Some(Cephx { user, scope, key });
        Ok(())
    }
}

impl node_encryption::Host for Invocation {
    fn luks(&mut self, scope: Scope, key: String) -> Answer<()> {
        let scope = self.checked_scope("luks", scope, &[&key])?;
        self.recorder.luks(Luks { scope, key })
    }
}

impl Invocation {
    fn set_chap(
        &mut self,
        step: &'static str,
        scope: Scope,
        user: String,
        password: String,
        place: fn(&mut Iscsi) -> &mut Option<Chap>,
    ) -> Answer<()> {
        let scope = self.checked_scope(step, scope, &[&user, &password])?;
        let Some(Source::Iscsi(iscsi)) = &mut self.recorder.source else {
            return Err(self.recorder.misplaced(step, "iscsi"));
        };
        *place(iscsi) = Some(Chap {
            scope,
            user,
            password,
        });
        Ok(())
    }

    /// Refuses a step with a name that no secret of the scope has.
    fn checked_scope(
        &mut self,
        step: &'static str,
        scope: Scope,
        names: &[&str],
    ) -> Answer<SecretScope> {
        self.recorder.check(step, names)?;
        self.known_scope(step, scope, names.iter().copied())
    }

    /// The same for names that count with the source that holds them.
    pub(super) fn known_scope<'n>(
        &mut self,
        step: &'static str,
        scope: Scope,
        mut names: impl Iterator<Item = &'n str>,
    ) -> Answer<SecretScope> {
        let secrets = self.secrets_of(scope);
        let is_known = names.all(|name| secrets.get(name).is_some());
        let (reason, owner) = match scope {
            Scope::Request => (
                "it names a secret that this request does not bring; name a Secret that has it, with `csi.storage.k8s.io/node-stage-secret-name` \
                 of the StorageClass or `nodePublishSecretRef` of the volume",
                Owner::Request,
            ),
            Scope::Backend => (
                "it names a secret that the document of the backend does not have; add it to `spec.secrets`",
                Owner::Administrator,
            ),
        };
        match is_known {
            true => Ok(scope.convert()),
            false => Err(self.recorder.refuse(step, reason, Blame::Of(owner))),
        }
    }
}
