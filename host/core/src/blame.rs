//! Who is responsible for a failed call, and how a rejected argument of a plugin is compared with the request.
//!
//! A request reaches a plan through the plugin, which copies a server, a path or an option from a StorageClass. A rejected argument is therefore
//! compared with the strings of the request. In doubt the request is responsible: an administrator can order a missing rollback by hand, but a
//! rollback that one tenant provokes takes a good version from all users.

use crate::attributes::{Attributes, is_added_by_kubernetes};
use crate::secrets::Secrets;
use crate::volume::{AccessType, VolumeCapability};
use serde::{Deserialize, Serialize};
use std::fmt;
use zeroize::Zeroizing;

/// Largest ratio of what a plugin derives from a request to the request: base64 and JSON escapes stay below 4.
const GROWTH: usize = 4;

/// Who is responsible for a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Owner {
    /// The code of the plugin.
    Plugin,
    /// The request: the content of a pod, a PersistentVolumeClaim, a StorageClass or a PersistentVolume.
    Request,
    /// A secret of the request.
    Secret,
    /// The content of a volume or a pool.
    Content,
    /// The storage: disks, arrays, networks, the state store, or work on them that is not finished.
    Storage,
    /// This host and its node.
    Host,
    /// The documents: grants, limits, the choice of the serving version.
    Administrator,
}

/// Why an argument of a plugin was rejected, as far as this determines who is responsible. Crosses the process boundary with the error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Blame {
    /// This owner is responsible, whatever the request contains.
    Of(Owner),
    /// A string is not valid: the request is responsible if it contains the string too.
    Argument(RefusedString),
    /// The size exceeds this many bytes: the request is responsible if it is nearly as large.
    Size(usize),
}

/// A rejected string of a plugin. `Debug` does not show it: it may be a mount flag, or contain a secret.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedString(Zeroizing<String>);

/// The strings that the author of a request wrote, in any field.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct RequestStrings(Vec<String>);

/// The full content of a request, with which a rejected string is compared.
#[derive(Debug, Clone, Copy)]
pub struct RequestContent<'a> {
    /// Its strings.
    pub strings: &'a RequestStrings,
    /// Its secrets.
    pub secrets: &'a Secrets,
}

impl Blame {
    /// This string is not valid.
    pub fn argument(string: impl Into<String>) -> Self {
        Self::Argument(RefusedString(Zeroizing::new(string.into())))
    }

    /// Who is responsible, given the request.
    pub fn owner(&self, request: RequestContent<'_>) -> Owner {
        match self {
            Blame::Of(owner) => *owner,
            Blame::Argument(RefusedString(string)) if request.strings.overlap_with(string) => {
                Owner::Request
            }
            Blame::Argument(RefusedString(string)) if holds(request.secrets, string) => {
                Owner::Secret
            }
            Blame::Argument(_) => Owner::Plugin,
            Blame::Size(limit) if request.bytes().saturating_mul(GROWTH) >= *limit => {
                Owner::Request
            }
            Blame::Size(_) => Owner::Plugin,
        }
    }
}

impl RequestStrings {
    /// Adds a string, such as the requested name or a volume id.
    pub fn with(mut self, string: &str) -> Self {
        self.0.push(string.to_owned());
        self
    }

    /// Adds keys and values of parameters or of a context.
    pub fn with_map(mut self, map: &Attributes) -> Self {
        for (key, value) in map.iter() {
            if !is_added_by_kubernetes(key) {
                self.0.push(key.to_owned());
            }
            self.0.push(value.to_owned());
        }
        self
    }

    /// Adds the strings of the requested capabilities.
    pub fn with_capabilities<'c>(
        mut self,
        capabilities: impl IntoIterator<Item = &'c VolumeCapability>,
    ) -> Self {
        for capability in capabilities {
            if let AccessType::Mount(access) = &capability.access_type {
                self.0.extend(access.fs_type.clone());
                self.0.extend(access.volume_mount_group.clone());
                self.0.extend(access.mount_flags.iter().cloned());
            }
        }
        self
    }

    /// Whether a string is built from these strings, or is a part of one.
    fn overlap_with(&self, string: &str) -> bool {
        self.0.iter().any(|known| overlaps(known, string))
    }
}

impl RequestContent<'_> {
    fn bytes(&self) -> usize {
        let strings = self.strings.0.iter().map(String::len);
        let secrets = self.secrets.values().map(str::len);
        strings.chain(secrets).sum()
    }
}

/// Whether one contains the other. Only an empty string contains an empty string.
fn overlaps(known: &str, string: &str) -> bool {
    match (known.is_empty(), string.is_empty()) {
        (false, false) => string.contains(known) || known.contains(string),
        (known, string) => known && string,
    }
}

/// Whether a string overlaps with a secret, or with a line or quoted part of a secret, as the redaction searches for them.
fn holds(secrets: &Secrets, string: &str) -> bool {
    let parts = |value: &'_ str| {
        let mut parts = value.split(['\n', '\r', '"']).map(str::trim);
        overlaps(value, string) || parts.any(|part| !part.is_empty() && overlaps(part, string))
    };
    secrets.values().any(parts) || secrets.names().any(|name| overlaps(name, string))
}

impl fmt::Debug for RefusedString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a string of {} bytes", self.0.len())
    }
}

impl fmt::Debug for RequestStrings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} strings", self.0.len())
    }
}
