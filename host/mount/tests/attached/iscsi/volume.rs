//! Hosts that are granted the target, and their volumes.

use super::target::{PORTAL, SECOND_PORTAL, TARGET, path, wwid};
use crate::host::{self, Host};
use std::path::Path;
use wasmount_core::document::{AttachGrant, AttachProtocol, Portals};
use wasmount_core::plan::attached::{Chap, IscsiPath, SecretScope, option};
use wasmount_core::plan::{Iscsi, Source};
use wasmount_core::secrets::SecretOptions;

/// The driver.
pub(crate) const DRIVER: &str = "iscsi.test";
/// How long a volume waits for its disk.
const WAIT_MS: u32 = 5000;

/// What a volume is.
#[derive(Clone)]
pub(crate) struct Volume {
    pub(crate) name: String,
    pub(crate) paths: Vec<IscsiPath>,
    pub(crate) wwid: String,
    pub(crate) minimum_paths: u32,
    pub(crate) is_raw: bool,
    pub(crate) is_read_only: bool,
    /// User and password.
    pub(crate) chap: Option<[&'static str; 2]>,
    pub(crate) mutual_chap: Option<[&'static str; 2]>,
}

impl Volume {
    /// A file system on the disk with this number, at this logical unit.
    pub(crate) fn of(lun: u16, number: u32) -> Self {
        Self {
            name: format!("v{number}"),
            paths: vec![path(PORTAL, lun)],
            wwid: wwid(number),
            minimum_paths: 1,
            is_raw: false,
            is_read_only: false,
            chap: None,
            mutual_chap: None,
        }
    }

    /// The same over two paths, which are both needed.
    pub(crate) fn of_two_paths(lun: u16, number: u32) -> Self {
        Self {
            paths: vec![path(PORTAL, lun), path(SECOND_PORTAL, lun)],
            minimum_paths: 2,
            ..Self::of(lun, number)
        }
    }
}

impl host::Volume for Volume {
    fn name(&self) -> &str {
        &self.name
    }

    fn source(&self) -> Source {
        let chap = |user: &str, password: &str| Chap {
            scope: SecretScope::Request,
            user: user.to_owned(),
            password: password.to_owned(),
        };
        Source::Iscsi(Iscsi {
            paths: self.paths.clone(),
            wwid: self.wwid.clone(),
            minimum_paths: self.minimum_paths,
            wait_ms: WAIT_MS,
            chap: self.chap.map(|_| chap("user", "password")),
            mutual_chap: self.mutual_chap.map(|_| chap("user-in", "password-in")),
        })
    }

    fn secrets(&self) -> SecretOptions {
        let pairs = |names: [&'static str; 2], values: Option<[&'static str; 2]>| {
            let values = values.into_iter().flatten();
            names.into_iter().zip(values)
        };
        let chap = pairs([option::CHAP_USER, option::CHAP_PASSWORD], self.chap);
        let mutual = pairs(
            [option::MUTUAL_CHAP_USER, option::MUTUAL_CHAP_PASSWORD],
            self.mutual_chap,
        );
        let all = chap.chain(mutual);
        all.map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect()
    }

    fn is_raw(&self) -> bool {
        self.is_raw
    }

    fn is_read_only(&self) -> bool {
        self.is_read_only
    }
}

pub(crate) fn host() -> Host {
    host_of(DRIVER)
}

/// The host of a driver.
pub(crate) fn host_of(driver: &str) -> Host {
    Host::of(driver, grant(), &[])
}

/// A host in a directory that may have been another one's.
pub(crate) fn host_at(folder: &Path) -> Host {
    Host::at(folder, DRIVER, grant(), &[])
}

fn grant() -> AttachGrant {
    AttachGrant {
        protocol: AttachProtocol::Iscsi,
        portals: ["127.0.0.0/30:3260", "192.0.2.0/24:3260"]
            .map(|portals| Portals::parse(portals).unwrap())
            .into(),
        targets: vec![TARGET.to_owned()],
        mount_options: Vec::new(),
    }
}
