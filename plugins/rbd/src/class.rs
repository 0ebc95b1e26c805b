//! The parameters of a StorageClass: those of ceph-csi, and the namespace of the pool.
use crate::api::{Image, is_name};
use crate::node::EXCLUSIVE;
use crate::{Settings, words};
use serde::Deserialize;
use serde_json::{Value, json};
use wasmount_guest::*;

const PREFIX: &str = "csi-vol-";
/// Those that the kernel's client knows; others would not be mapped.
const FEATURES: [&str; 5] = [
    "layering",
    "exclusive-lock",
    "object-map",
    "fast-diff",
    "deep-flatten",
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Class {
    #[serde(rename = "clusterID")]
    cluster_id: Option<String>,
    pool: String,
    rados_namespace: Option<String>,
    data_pool: Option<String>,
    image_features: Option<String>,
    volume_name_prefix: Option<String>,
    mounter: Option<String>,
    map_options: Option<String>,
    #[serde(default)]
    encrypted: bool,
    // Known, since classes of ceph-csi have them; of use to its other client, to its logs and to an unmap by program only.
    #[serde(rename = "tryOtherMounters")]
    _try_other_mounters: Option<String>,
    #[serde(rename = "cephLogDir")]
    _ceph_log_dir: Option<String>,
    #[serde(rename = "cephLogStrategy")]
    _ceph_log_strategy: Option<String>,
    #[serde(rename = "unmapOptions")]
    _unmap_options: Option<String>,
}

impl Class {
    pub(crate) fn read(parameters: &Attributes, settings: &Settings) -> Result<Self, Error> {
        let class: Self = parameters.read()?;
        must_be_ours(class.cluster_id.as_deref(), settings)?;
        let unknown = class
            .features()
            .into_iter()
            .flatten()
            .find(|it| !FEATURES.contains(it));
        if class.mounter.as_ref().is_some_and(|it| it != "rbd") {
            let what = "`mounter` must be `rbd`: the process of another would end with this driver";
            return Err(Error::invalid_argument(what));
        } else if class.encrypted {
            let what = "`encrypted` cannot be true: this driver has no keys of volumes";
            return Err(Error::invalid_argument(what));
        } else if class.map_options.is_some() && !class.is_exclusive() {
            let what = "`mapOptions` can be `exclusive` or `krbd:exclusive`";
            return Err(Error::invalid_argument(what));
        } else if let Some(feature) = unknown {
            let what = format!(
                "`imageFeatures` cannot have `{feature}`: the kernel's client knows {}",
                FEATURES.join(", ")
            );
            return Err(Error::invalid_argument(what));
        }
        Ok(class)
    }

    /// The image of the volume with this name.
    pub(crate) fn image(&self, name: &str, settings: &Settings) -> Result<Image, Error> {
        let prefix = self.volume_name_prefix.as_deref().unwrap_or(PREFIX);
        let image = Image {
            pool: self.pool.clone(),
            namespace: self.rados_namespace.clone(),
            name: id::readable(prefix, name),
        };
        let place = image.place();
        if !settings.has(&place) {
            let what = format!("`pool` cannot be `{place}`: name one of the setting `pools`");
            return Err(Error::invalid_argument(what));
        }
        let words = [
            Some(self.pool.as_str()),
            image.namespace.as_deref(),
            Some(prefix),
        ];
        if let Some(word) = words.into_iter().flatten().find(|it| !is_name(it)) {
            let what = format!("`{word}` is no name: it has letters, digits, `-`, `_` and `.`");
            return Err(Error::invalid_argument(what));
        }
        Ok(image)
    }

    /// What Ceph is told of a new image, besides name and size.
    pub(crate) fn options(&self) -> Value {
        json!({ "features": self.features(), "data_pool": self.data_pool })
    }

    /// Whether a node that writes to the image is the only one.
    pub(crate) fn is_exclusive(&self) -> bool {
        let options = self.map_options.as_deref();
        options.is_some_and(|it| it.strip_prefix("krbd:").unwrap_or(it) == EXCLUSIVE)
    }

    /// Where its data lies.
    pub(crate) fn data_pool(&self) -> &str {
        self.data_pool.as_deref().unwrap_or(&self.pool)
    }

    fn features(&self) -> Option<Vec<&str>> {
        self.image_features.as_deref().map(|it| words(it).collect())
    }
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
