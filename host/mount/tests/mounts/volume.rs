//! A volume of any kind from the view of a client: short functions that make the requests.

use crate::bench::*;
use wasmount_core::mounter::{
    ExpandVolume, MountError, PublishVolume, StageVolume, StatVolume, VolumeStats,
};
use wasmount_core::plan::attached::SecretScope;
use wasmount_core::plan::encryption::LUKS_KEY;
use wasmount_core::plan::{Luks, Plan};
use wasmount_core::secrets::SecretOptions;
use wasmount_core::volume::{AccessMode, AccessType, MountAccess, VolumeCapability};

#[derive(Clone)]
pub(crate) struct Volume<'b> {
    pub(crate) bench: &'b Bench,
    pub(crate) name: &'static str,
    pub(crate) plan: Plan,
    pub(crate) access_type: AccessType,
    pub(crate) secrets: SecretOptions,
}

pub(crate) fn mounted_as(fs_type: &str) -> AccessType {
    AccessType::Mount(MountAccess {
        fs_type: Some(fs_type.to_owned()),
        ..MountAccess::default()
    })
}

impl<'b> Volume<'b> {
    /// Creates the staging directory too.
    pub(crate) fn new(
        bench: &'b Bench,
        name: &'static str,
        plan: Plan,
        access_type: AccessType,
    ) -> Self {
        let _ = std::fs::create_dir(bench.staging(name));
        Self {
            bench,
            name,
            plan,
            access_type,
            secrets: SecretOptions::default(),
        }
    }

    /// The same, encrypted.
    pub(crate) fn encrypted_by(mut self, passphrase: &str) -> Self {
        self.plan.luks = Some(Luks::of(SecretScope::Request, "luksKey"));
        self.secrets = SecretOptions::from_iter([(LUKS_KEY.to_owned(), passphrase.to_owned())]);
        self
    }

    /// With its own image; `raw` or the name of a file system.
    pub(crate) async fn of_image(
        bench: &'b Bench,
        name: &'static str,
        form: &str,
        mebibytes: u64,
    ) -> Self {
        let plan = bench.image(name, mebibytes << 20).await;
        Self::new(bench, name, plan, form_of(form))
    }

    pub(crate) fn with(&self, access_type: AccessType) -> Self {
        Self {
            access_type,
            ..self.clone()
        }
    }

    pub(crate) fn capability(&self, access_mode: AccessMode) -> VolumeCapability {
        VolumeCapability {
            access_type: self.access_type.clone(),
            access_mode,
        }
    }

    pub(crate) async fn stage(&self) -> Result<(), MountError> {
        self.stage_as(WRITER).await
    }

    pub(crate) async fn stage_as(&self, mode: AccessMode) -> Result<(), MountError> {
        let request = StageVolume {
            key: key(self.name),
            staging_path: node_path(&self.bench.staging(self.name)),
            capability: self.capability(mode),
            plan: self.plan.clone(),
            secret_options: self.secrets.clone(),
        };
        self.bench.mounter.stage(request).await
    }

    pub(crate) async fn publish(&self, target: &str) -> Result<(), MountError> {
        self.publish_as(target, WRITER, false).await
    }

    pub(crate) async fn publish_as(
        &self,
        target: &str,
        mode: AccessMode,
        readonly: bool,
    ) -> Result<(), MountError> {
        let request = PublishVolume {
            key: key(self.name),
            staging_path: Some(node_path(&self.bench.staging(self.name))),
            target_path: node_path(&self.bench.target(target)),
            capability: self.capability(mode),
            readonly,
            plan: None,
            secret_options: SecretOptions::default(),
        };
        self.bench.mounter.publish(request).await
    }

    /// Publishes without a stage step.
    pub(crate) async fn publish_plan(
        &self,
        target: &str,
        readonly: bool,
    ) -> Result<(), MountError> {
        self.publish_plan_as(target, WRITER, readonly).await
    }

    /// Publishes without a stage step.
    pub(crate) async fn publish_plan_as(
        &self,
        target: &str,
        mode: AccessMode,
        readonly: bool,
    ) -> Result<(), MountError> {
        let request = PublishVolume {
            key: key(self.name),
            staging_path: None,
            target_path: node_path(&self.bench.target(target)),
            capability: self.capability(mode),
            readonly,
            plan: Some(self.plan.clone()),
            secret_options: self.secrets.clone(),
        };
        self.bench.mounter.publish(request).await
    }

    pub(crate) async fn unpublish(&self, target: &str) -> Result<(), MountError> {
        self.bench.unpublish(self.name, target).await
    }

    pub(crate) async fn unstage(&self) -> Result<(), MountError> {
        self.bench.unstage(self.name).await
    }

    pub(crate) async fn stats(&self, target: &str) -> Result<VolumeStats, MountError> {
        let request = StatVolume {
            key: key(self.name),
            volume_path: node_path(&self.bench.target(target)),
            staging_path: None,
        };
        self.bench.mounter.stats(request).await
    }

    /// At the staging path, including the image.
    pub(crate) async fn expand(
        &self,
        required_bytes: Option<u64>,
        limit_bytes: Option<u64>,
    ) -> Result<u64, MountError> {
        let request = ExpandVolume {
            limit_bytes,
            grows_object: true,
            ..self.expansion(required_bytes)
        };
        self.bench.mounter.expand(request).await
    }

    /// At the staging path, to the existing size of the image.
    pub(crate) async fn expand_to_image(&self, required_bytes: u64) -> Result<u64, MountError> {
        let request = self.expansion(Some(required_bytes));
        self.bench.mounter.expand(request).await
    }

    fn expansion(&self, required_bytes: Option<u64>) -> ExpandVolume {
        ExpandVolume {
            key: key(self.name),
            volume_path: node_path(&self.bench.staging(self.name)),
            required_bytes,
            limit_bytes: None,
            grows_object: false,
        }
    }

    /// Tears everything down, and verifies that nothing is left.
    pub(crate) async fn end(&self, targets: &[&str]) {
        for target in targets {
            self.unpublish(target).await.unwrap();
        }
        self.unstage().await.unwrap();
        self.bench.assert_clean();
        self.bench.assert_no_loop_devices();
    }
}

fn form_of(form: &str) -> AccessType {
    match form {
        "raw" => AccessType::Block,
        fs_type => mounted_as(fs_type),
    }
}
