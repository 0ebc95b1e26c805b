//! The parameters of a StorageClass and of a VolumeAttributesClass.
use serde::{Deserialize, Serialize};
use wasmount_guest::{pool::Content, *};

const MINIMUM_BYTES: u64 = 1 << 20; // a file system takes some for itself

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    #[serde(alias = "node-grown-image")] // of records and classes of earlier versions
    Image,
    Directory,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Class {
    pub(crate) kind: Kind,
    pub(crate) pool: Pool,
    pub(crate) fs_type: String, // of an image, where a capability names none
}

/// Mutable parameters. A mount keeps its options: a change applies from the next attachment on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Mutable {
    pub(crate) atime: Option<bool>,
    pub(crate) discard: Option<bool>, // what is deleted in an image goes back to the pool
}

impl Default for Class {
    fn default() -> Self {
        Self {
            kind: Kind::Image,
            pool: Pool::named("volumes"),
            fs_type: "ext4".to_owned(),
        }
    }
}

impl Class {
    /// Rejects capabilities that such a volume cannot have, and returns the smallest size in bytes.
    pub(crate) fn check(&self, capabilities: &[VolumeCapability]) -> Result<u64, Error> {
        self.pool.must_be_granted()?;
        smallest_image(&self.fs_type)?;
        let mut minimum = MINIMUM_BYTES;
        for one in capabilities {
            one.must_be_on_one_node()?;
            match self.kind {
                Kind::Directory => one.must_be_mount()?,
                _ => minimum = minimum.max(one.smallest_image(&self.fs_type)?),
            }
        }
        Ok(minimum)
    }

    pub(crate) fn make(&self, id: &str, bytes: u64, from: Option<&Content>) -> Result<(), Error> {
        let kind = match self.kind {
            Kind::Directory => pool::Kind::Directory,
            Kind::Image => pool::Kind::Image,
        };
        self.pool.create_volume(kind, id, bytes, from)
    }

    pub(crate) fn mutable(&self, parameters: &Attributes) -> Result<Mutable, Error> {
        let mutable: Mutable = parameters.read()?;
        if self.kind == Kind::Directory && mutable.discard.is_some() {
            return Err(Error::invalid_argument("`discard` is for images alone"));
        }
        Ok(mutable)
    }
}
