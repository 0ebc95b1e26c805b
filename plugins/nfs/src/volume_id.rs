//! Volume ids of csi-driver-nfs: `server#share#subDir#uuid#onDelete`, where the last two may be missing, and the old `server/share/subDir`.
use crate::class::OnDelete;
use wasmount_guest::*;

const SEPARATOR: char = '#';

/// What an id says. The directory of a volume is never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct VolumeId {
    pub(crate) server: String,
    /// Without slashes around it.
    pub(crate) share: String,
    pub(crate) sub_dir: String,
    /// The name of the volume, if it is not that of the directory.
    pub(crate) unique: String,
    /// None: the default of the driver.
    pub(crate) on_delete: Option<OnDelete>,
}

impl VolumeId {
    /// `None`: no id of a volume. It comes from a client, and names what is deleted.
    pub(crate) fn parse(id: &str) -> Option<Self> {
        let mut parts = id.split(SEPARATOR);
        let (server, share, sub_dir) = match (parts.next()?, parts.next(), parts.next()) {
            (server, Some(share), Some(sub_dir)) => (server, share, sub_dir),
            (id, None, None) => {
                let (server, path) = id.split_once('/')?;
                let (share, sub_dir) = path.rsplit_once('/')?;
                (server, share, sub_dir)
            }
            _ => return None,
        };
        let unique = parts.next().unwrap_or_default();
        let on_delete = match parts.next().unwrap_or_default() {
            "" => None,
            word => Some(OnDelete::parse(word).ok()?),
        };
        let sub_dir = segments(sub_dir)?.join("/");
        if server.is_empty() || sub_dir.is_empty() || parts.next().is_some() {
            return None;
        }
        Some(Self {
            server: server.to_owned(),
            share: segments(share)?.join("/"),
            sub_dir,
            unique: unique.to_owned(),
            on_delete,
        })
    }

    /// Or `not-found`.
    pub(crate) fn known(id: &str) -> Result<Self, Error> {
        Self::parse(id).ok_or_else(|| Error::not_found("there is no volume of this id"))
    }

    /// As csi-driver-nfs writes it.
    pub(crate) fn text(&self) -> String {
        let on_delete = self.on_delete.unwrap_or_default().in_id();
        [
            &self.server,
            &self.share,
            &self.sub_dir,
            &self.unique,
            on_delete,
        ]
        .join("#")
    }
}

/// The parts of a path. `None` if one of them is `.` or `..`.
pub(crate) fn segments(path: &str) -> Option<Vec<String>> {
    let parts = path.split('/').filter(|part| !part.is_empty());
    let named = |part: &str| (part != "." && part != "..").then(|| part.to_owned());
    parts.map(named).collect()
}
