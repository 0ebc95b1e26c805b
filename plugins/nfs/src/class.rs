//! The parameters of a StorageClass, and the volume context: both have the names of csi-driver-nfs, in any case.
use crate::volume_id::{VolumeId, segments};
use serde::{Deserialize, Serialize};
use wasmount_guest::*;

/// Words of `subDir` and the keys of external-provisioner (`--extra-create-metadata`) with their values.
const TEMPLATES: [(&str, &str); 3] = [
    ("${pvc.metadata.name}", "csi.storage.k8s.io/pvc/name"),
    (
        "${pvc.metadata.namespace}",
        "csi.storage.k8s.io/pvc/namespace",
    ),
    ("${pv.metadata.name}", "csi.storage.k8s.io/pv/name"),
];
/// Prefixes of keys that Kubernetes adds.
const OF_KUBERNETES: [&str; 2] = ["csi.storage.k8s.io/", "storage.kubernetes.io/"];

/// What becomes of the directory of a deleted volume.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum OnDelete {
    #[default]
    Delete,
    Retain,
    /// It is renamed to `archived-` and its name.
    Archive,
}

/// The parameters.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Class {
    pub(crate) server: String,
    pub(crate) share: String,
    /// With templates; none: the name of the volume.
    pub(crate) sub_dir: Option<String>,
    pub(crate) on_delete: Option<OnDelete>,
    /// Permission bits of the directory.
    pub(crate) mode: Option<u32>,
    pub(crate) uid: Option<u32>,
    pub(crate) gid: Option<u32>,
    /// Only in the context of a volume that was not created here.
    pub(crate) mount_options: Vec<String>,
}

impl OnDelete {
    pub(crate) fn parse(text: &str) -> Result<Self, Error> {
        match text.to_ascii_lowercase().as_str() {
            "" | "delete" => Ok(Self::Delete),
            "retain" => Ok(Self::Retain),
            "archive" => Ok(Self::Archive),
            _ => Err(Error::invalid_argument(
                "`onDelete` must be delete, retain or archive",
            )),
        }
    }

    /// As in an id, where csi-driver-nfs does not name the default.
    pub(crate) fn in_id(self) -> &'static str {
        match self {
            Self::Delete => "",
            Self::Retain => "retain",
            Self::Archive => "archive",
        }
    }
}

impl Class {
    pub(crate) fn read(parameters: &Attributes) -> Result<Self, Error> {
        let mut class = Self::default();
        for (key, value) in parameters {
            match key.to_ascii_lowercase().as_str() {
                "server" => value
                    .trim_matches(['/', '[', ']'])
                    .clone_into(&mut class.server),
                "share" => class.share.clone_from(value),
                "subdir" => class.sub_dir = Some(value.clone()).filter(|it| !it.is_empty()),
                "ondelete" => class.on_delete = Some(OnDelete::parse(value)?),
                "mountpermissions" => class.mode = mode(value)?,
                "uid" => class.uid = Some(number(key, value)?),
                "gid" => class.gid = Some(number(key, value)?),
                "mountoptions" => {
                    let options = value.split(',').filter(|option| !option.is_empty());
                    class.mount_options = options.map(str::to_owned).collect();
                }
                key if OF_KUBERNETES.iter().any(|prefix| key.starts_with(prefix)) => {}
                _ => {
                    return Err(Error::invalid_argument(format!(
                        "unknown parameter `{key}`: known are server, share, subDir, onDelete, mountPermissions, uid and gid"
                    )));
                }
            }
        }
        let must_be = |key: &str, value: &str| match value.is_empty() {
            true => Err(Error::invalid_argument(format!(
                "`{key}` is missing: set it"
            ))),
            false => Ok(()),
        };
        must_be("server", &class.server)?;
        must_be("share", &class.share)?;
        Ok(class)
    }

    /// The id of the volume with this name. A name that cannot be a directory is hashed.
    pub(crate) fn id(&self, name: &str, parameters: &Attributes) -> Result<VolumeId, Error> {
        let name = match name.chars().all(is_plain) && !name.starts_with('.') {
            true => name.to_owned(),
            false => id::from_name("volume", name),
        };
        let (sub_dir, unique) = match &self.sub_dir {
            Some(template) => (filled(template, parameters)?, name),
            None => (name, String::new()),
        };
        Ok(VolumeId {
            server: self.server.clone(),
            share: self.share.trim_matches('/').to_owned(),
            sub_dir: sub_dir.join_segments()?,
            unique,
            on_delete: self.on_delete,
        })
    }
}

/// A path of which every part is a name.
trait JoinSegments {
    fn join_segments(&self) -> Result<String, Error>;
}

impl JoinSegments for String {
    fn join_segments(&self) -> Result<String, Error> {
        segments(self)
            .map(|parts| parts.join("/"))
            .filter(|path| !path.is_empty() && !path.contains('#'))
            .ok_or_else(|| {
                Error::invalid_argument(format!(
                    "`subDir` cannot be `{self}`: it names a directory below the share, without `..` and `#`"
                ))
            })
    }
}

/// `mountPermissions`: octal; 0 leaves them as they are.
pub(crate) fn mode(text: &str) -> Result<Option<u32>, Error> {
    match u32::from_str_radix(text, 8) {
        _ if text.is_empty() => Ok(None),
        Ok(0) => Ok(None),
        Ok(mode) if mode <= 0o7777 => Ok(Some(mode)),
        _ => Err(Error::invalid_argument(format!(
            "`mountPermissions` cannot be `{text}`: it is octal, such as 0775"
        ))),
    }
}

fn number(key: &str, text: &str) -> Result<u32, Error> {
    // As in csi-driver-nfs, where it is signed.
    let number = text
        .parse::<i32>()
        .ok()
        .and_then(|it| u32::try_from(it).ok());
    number.ok_or_else(|| {
        Error::invalid_argument(format!("`{key}` cannot be `{text}`: it is a number from 0"))
    })
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')
}

/// Replaces the templates. Without the key of one the sidecar was started without `--extra-create-metadata`.
fn filled(template: &str, parameters: &Attributes) -> Result<String, Error> {
    let mut path = template.to_owned();
    for (word, key) in TEMPLATES {
        if path.contains(word) {
            let value = parameters.value(key).ok_or_else(|| {
                Error::invalid_argument(format!(
                    "`subDir` has {word}, and the request does not say it: start external-provisioner with --extra-create-metadata"
                ))
            })?;
            path = path.replace(word, value);
        }
    }
    match path.contains("${") {
        false => Ok(path),
        true => Err(Error::invalid_argument(format!(
            "`subDir` cannot be `{template}`: known are {}",
            TEMPLATES.map(|(word, _)| word).join(", ")
        ))),
    }
}
