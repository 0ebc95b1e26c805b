//! The hosts that volumes can be attached to.

use super::{Store, check_name};
use crate::records::Host;
use crate::refusal::{Answer, conflict, missing, unprocessable};

/// Longest name of an initiator, in bytes (RFC 7143 §4.2.7.1, NVM Express Base 2.0 §4.5).
const INITIATOR_BYTES: usize = 223;

impl Store {
    pub(crate) fn hosts(&self) -> impl Iterator<Item = (&String, &Host)> {
        self.hosts.iter()
    }

    pub(crate) fn host(&self, name: &str) -> Answer<&Host> {
        self.hosts.get(name).ok_or_else(missing)
    }

    /// Registers a host. Its initiator stays the same while volumes are attached to it.
    pub(crate) fn put_host(&mut self, name: &str, host: Host) -> Answer<()> {
        check_name(name)?;
        host.iqn.as_deref().map_or(Ok(()), check_iqn)?;
        host.nqn.as_deref().map_or(Ok(()), check_nqn)?;
        let is_same = |one: &Option<String>, other| one.is_some() && one == other;
        let twin = |(other, it): (&String, &Host)| {
            other != name && (is_same(&it.iqn, &host.iqn) || is_same(&it.nqn, &host.nqn))
        };
        if self.hosts.iter().any(twin) {
            return Err(conflict("another host has this initiator"));
        }
        let is_line = |text: &str| !text.is_empty() && !text.contains(char::is_control);
        if let Some(chap) = &host.chap
            && !(is_line(&chap.user) && is_line(chap.password.reveal()))
        {
            return Err(unprocessable("user and password of CHAP are one line each"));
        }
        if let Some(key) = &host.dhchap_key
            && !(is_line(key.reveal()) && key.reveal().starts_with("DHHC-1:"))
        {
            return Err(unprocessable(
                "`dhchapKey` is a line as `nvme gen-dhchap-key` prints it, such as DHHC-1:00:…:",
            ));
        }
        let known = self.hosts.get(name);
        let is_lost = |one: &Option<String>, now| one.is_some() && one != now;
        let is_other =
            |known: &Host| is_lost(&known.iqn, &host.iqn) || is_lost(&known.nqn, &host.nqn);
        if known.is_some_and(is_other) && self.has_volumes(name) {
            return Err(conflict("volumes are attached to the host"));
        }
        self.hosts.insert(name.to_owned(), host);
        Ok(())
    }

    pub(crate) fn delete_host(&mut self, name: &str) -> Answer<Host> {
        if self.has_volumes(name) {
            return Err(conflict("volumes are attached to the host"));
        }
        self.hosts.remove(name).ok_or_else(missing)
    }

    fn has_volumes(&self, host: &str) -> bool {
        let mut volumes = self.volumes.values();
        volumes.any(|it| it.luns.contains_key(host))
    }
}

/// The name of an initiator becomes the name of a directory.
fn check_iqn(iqn: &str) -> Answer<()> {
    let is_known = ["iqn.", "eui.", "naa."]
        .iter()
        .any(|it| iqn.starts_with(it));
    let is_plain = |it: char| it.is_ascii_lowercase() || it.is_ascii_digit() || ".:-".contains(it);
    match is_known && iqn.len() <= INITIATOR_BYTES && iqn.chars().all(is_plain) {
        true => Ok(()),
        false => Err(unprocessable(
            "`iqn` is the name of an initiator, such as iqn.1993-08.org.debian:01:1234, in lower case",
        )),
    }
}

/// The same, of NVMe over Fabrics.
fn check_nqn(nqn: &str) -> Answer<()> {
    let is_plain = |it: char| it.is_ascii_graphic() && it != '/';
    match nqn.starts_with("nqn.") && nqn.len() <= INITIATOR_BYTES && nqn.chars().all(is_plain) {
        true => Ok(()),
        false => Err(unprocessable(
            "`nqn` is the name of a host, such as nqn.2014-08.org.nvmexpress:uuid:b8a6…",
        )),
    }
}
