//! What an array keeps and answers: volumes, snapshots, hosts, attachments. All of it is JSON, for clients and in the file of the state.

use crate::secret::Secret;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Instant;

/// What is listed and looked up.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    Volume,
    Snapshot,
}

/// Whether a volume or a snapshot can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Its job is under way.
    Creating,
    /// It can be used.
    Ready,
    /// Its job failed: it can only be deleted.
    Error,
}

/// Limits that a client wants for a volume. They are kept and answered, and not enforced: the kernel's targets have no limits of their own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Qos {
    /// Operations in a second.
    pub iops: Option<u64>,
    /// Bytes in a second.
    pub bytes_per_second: Option<u64>,
}

/// A volume or a snapshot, as it is answered.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Object {
    /// Chosen by the array, and never used again.
    pub id: String,
    /// Unique among volumes, and among snapshots.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// What can be done with it.
    pub state: State,
    /// The snapshot or volume that a volume is a copy of; the snapshot's volume.
    pub source: Option<String>,
    /// Seconds since 1970.
    pub created: u64,
    /// The hosts that it is attached to.
    #[serde(skip_deserializing)]
    pub hosts: Vec<String>,
    /// The limits of a volume.
    pub qos: Qos,
    /// How its only host reaches it, or the host that it is being attached to, if the array has a data path.
    #[serde(skip_deserializing)]
    pub connection: Option<Connection>,
}

/// How a host reaches an attached volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Connection {
    /// Which of the kernel's targets shows it.
    pub protocol: Target,
    /// Address and port of each portal.
    pub portals: Vec<SocketAddr>,
    /// The name of the target (IQN) or of the subsystem (NQN), the same behind each portal.
    pub target: String,
    /// The LUN or the number of the namespace there.
    pub lun: u16,
    /// The identity of the disk: of iSCSI its NAA designator of VPD page 83 as Linux shows it, of NVMe the UUID of the namespace.
    pub wwid: String,
}

/// A target of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Target {
    /// LIO.
    Iscsi,
    /// nvmet.
    NvmeTcp,
}

/// An initiator that volumes can be attached to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Host {
    /// The name of its iSCSI initiator.
    #[serde(default)]
    pub(crate) iqn: Option<String>,
    /// Its name in NVMe over Fabrics.
    #[serde(default)]
    pub(crate) nqn: Option<String>,
    /// What it logs in with, if it must.
    #[serde(default)]
    pub(crate) chap: Option<Chap>,
    /// Its key of DH-HMAC-CHAP (NVM Express Base 2.0 §8.13), if it must have one.
    #[serde(default, rename = "dhchapKey")]
    pub(crate) dhchap_key: Option<Secret>,
}

/// Credentials of CHAP (RFC 7143 §12.1.3).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Chap {
    pub(crate) user: String,
    pub(crate) password: Secret,
}

/// A volume or a snapshot, as it is kept.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) object: Object,
    /// 32 hexadecimal digits that no other volume ever has: its identity on the data path.
    pub(crate) serial: String,
    /// Whether its hosts may only read it.
    pub(crate) readonly: bool,
    /// Whether several hosts may have it.
    #[serde(default)]
    pub(crate) shared: bool,
    /// The hosts that it is attached to, each with its LUN.
    #[serde(default)]
    pub(crate) luns: BTreeMap<String, u16>,
    /// When a job that only takes time ends.
    #[serde(skip)]
    pub(crate) ready: Option<Instant>,
}

/// How a volume is attached, which is the same for all its hosts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Mode {
    /// Hosts may only read it.
    pub(crate) readonly: bool,
    /// Several hosts may have it at a time.
    #[serde(default)]
    pub(crate) shared: bool,
}

/// An attached volume, for the data path.
#[derive(Debug)]
pub(crate) struct Attachment<'a> {
    pub(crate) id: &'a str,
    pub(crate) serial: &'a str,
    pub(crate) lun: u16,
    pub(crate) initiator: &'a str,
    pub(crate) readonly: bool,
    /// The key that the host must have.
    pub(crate) dhchap_key: Option<&'a Secret>,
}

/// What was done to an array, and what it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counts {
    /// Successful logins.
    pub logins: usize,
    /// Refused logins.
    pub refused_logins: usize,
    /// Sessions that are neither logged out nor expired.
    pub sessions: usize,
    /// Connections that were accepted.
    pub connections: usize,
    /// Volumes that were created, including those that are gone.
    pub created: usize,
    /// Names of the volumes that exist.
    pub volumes: Vec<String>,
    /// Names of the snapshots that exist.
    pub snapshots: Vec<String>,
    /// Names of the hosts that are registered.
    pub hosts: Vec<String>,
    /// Attachments that exist: volume id and host.
    pub attachments: Vec<(String, String)>,
}

/// What a client says of a new volume.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewVolume {
    pub(crate) name: String,
    pub(crate) bytes: u64,
    /// It begins as a copy of this snapshot.
    #[serde(default)]
    pub(crate) snapshot: Option<String>,
    /// It begins as a copy of this volume.
    #[serde(default)]
    pub(crate) volume: Option<String>,
    #[serde(default)]
    pub(crate) qos: Qos,
}

impl Record {
    /// As it is answered at this moment.
    pub(crate) fn shown(&self) -> Object {
        let mut shown = self.object.clone();
        shown.hosts = self.luns.keys().cloned().collect();
        if self.ready.is_some_and(|ready| Instant::now() < ready) {
            shown.state = State::Creating;
        }
        shown
    }
}
