//! The parameters of a StorageClass: those of ceph-csi, and the subvolume group.
use crate::Settings;
use crate::api::{Subvolume, is_name};
use serde::Deserialize;
use wasmount_guest::*;

const PREFIX: &str = "csi-vol-";

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Class {
    #[serde(rename = "clusterID")]
    cluster_id: Option<String>,
    pub(crate) fs_name: String,
    pub(crate) pool: Option<String>,
    volume_name_prefix: Option<String>,
    subvolume_group: Option<String>,
    mounter: Option<String>,
    pub(crate) kernel_mount_options: Option<String>,
    // Known, since classes of ceph-csi have them; of use to its other client only.
    #[serde(rename = "fuseMountOptions")]
    _fuse_mount_options: Option<String>,
    /// Whether each volume has a client of its own.
    #[serde(default = "yes")]
    pub(crate) key_per_volume: bool,
    #[serde(default)]
    encrypted: bool,
    #[serde(default)]
    backing_snapshot: bool,
}

impl Class {
    pub(crate) fn read(parameters: &Attributes, settings: &Settings) -> Result<Self, Error> {
        let class: Self = parameters.read()?;
        must_be_ours(class.cluster_id.as_deref(), settings)?;
        let unusable = if class.mounter.as_ref().is_some_and(|it| it != "kernel") {
            Some("`mounter` must be `kernel`: the process of another would end with this driver")
        } else if class.encrypted {
            Some("`encrypted` cannot be true: this driver has no keys of volumes")
        } else if class.backing_snapshot {
            Some("`backingSnapshot` cannot be true: every volume is a subvolume")
        } else {
            None
        };
        match unusable {
            Some(why) => Err(Error::invalid_argument(why)),
            None => Ok(class),
        }
    }

    /// The subvolume of the volume with this name.
    pub(crate) fn subvolume(&self, name: &str, settings: &Settings) -> Result<Subvolume, Error> {
        let group = match &self.subvolume_group {
            None => settings.groups().next().unwrap_or_default(),
            Some(group) => settings.groups().find(|it| it == group).ok_or_else(|| {
                let what = format!("`subvolumeGroup` cannot be `{group}`: name one of the setting `subvolumeGroups`");
                Error::invalid_argument(what)
            })?,
        };
        Ok(Subvolume {
            fs: checked("fsName", &self.fs_name)?.to_owned(),
            group: group.to_owned(),
            name: prefixed(
                "volumeNamePrefix",
                self.volume_name_prefix.as_deref(),
                PREFIX,
                name,
            )?,
        })
    }
}

fn yes() -> bool {
    true
}

/// One document is for one cluster.
pub(crate) fn must_be_ours(cluster: Option<&str>, settings: &Settings) -> Result<(), Error> {
    match (cluster, &settings.cluster_id) {
        (Some(cluster), Some(own)) if cluster != own => Err(Error::invalid_argument(format!(
            "`clusterID` cannot be `{cluster}`: this driver serves `{own}`"
        ))),
        _ => Ok(()),
    }
}

/// The name in Ceph of what a client calls `name`.
pub(crate) fn prefixed(
    key: &str,
    prefix: Option<&str>,
    default: &str,
    name: &str,
) -> Result<String, Error> {
    let prefix = checked(key, prefix.unwrap_or(default))?;
    Ok(id::readable(prefix, name))
}

fn checked<'a>(key: &str, word: &'a str) -> Result<&'a str, Error> {
    match is_name(word) {
        true => Ok(word),
        false => Err(Error::invalid_argument(format!(
            "`{key}` cannot be `{word}`: it has letters, digits, `-`, `_` and `.`"
        ))),
    }
}
