//! Sources of a plan whose block device appears on the node only after the mounter has connected to a storage system: iSCSI and NVMe over TCP.

use super::Named;
use serde::{Deserialize, Serialize};

/// Most paths to one volume: twice what arrays with two controllers of four ports offer. More would only make a login slower.
pub const PATHS: usize = 16;

/// A disk behind one or several iSCSI targets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Iscsi {
    /// The ways to the disk, in the order of preference.
    pub paths: Vec<IscsiPath>,
    /// The identity of the disk as the kernel shows it, such as `naa.6001405..`.
    pub wwid: String,
    /// Fewest paths with which the volume may be used.
    pub minimum_paths: u32,
    /// How long to wait for the disk after the login, in milliseconds.
    pub wait_ms: u32,
    /// CHAP: how the initiator proves who it is.
    pub chap: Option<Chap>,
    /// Mutual CHAP: how the target proves who it is.
    pub mutual_chap: Option<Chap>,
}

/// One way to a disk.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct IscsiPath {
    /// Address and port of the portal.
    pub portal: String,
    /// The name of the target, such as `iqn.2010-06.com.acme:array`.
    pub target: String,
    /// The number of the logical unit there.
    pub lun: u16,
}

/// User and password of CHAP.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chap {
    /// Whose secrets both are.
    pub scope: SecretScope,
    /// The name of the secret that is the user's name.
    pub user: String,
    /// The name of the secret that is the password.
    pub password: String,
}

/// A namespace of an NVMe subsystem over TCP.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nvme {
    /// Addresses and ports of the subsystem's controllers.
    pub addresses: Vec<String>,
    /// The NQN of the subsystem.
    pub subsystem: String,
    /// NGUID or UUID of the namespace, in the form of a UUID.
    pub namespace_id: String,
    /// Fewest paths with which the volume may be used.
    pub minimum_paths: u32,
    /// How long to wait for the namespace after the connect, in milliseconds.
    pub wait_ms: u32,
    /// In-band authentication.
    pub dhchap: Option<Dhchap>,
}

/// Keys of DH-HMAC-CHAP.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dhchap {
    /// Whose secrets both are.
    pub scope: SecretScope,
    /// The name of the secret that is the host's key.
    pub host_key: String,
    /// The name of the secret that is the controller's key, if the controller has to prove who it is.
    pub controller_key: Option<String>,
}

/// Whose secret a name means. A request can never shadow one of the administrator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SecretScope {
    /// A secret of the request.
    Request,
    /// A secret of the backend's document.
    Backend,
}

/// The names under which the mounter gets the values of secrets.
pub mod option {
    /// User of CHAP.
    pub const CHAP_USER: &str = "chap-user";
    /// Password of CHAP.
    pub const CHAP_PASSWORD: &str = "chap-password";
    /// User of mutual CHAP.
    pub const MUTUAL_CHAP_USER: &str = "mutual-chap-user";
    /// Password of mutual CHAP.
    pub const MUTUAL_CHAP_PASSWORD: &str = "mutual-chap-password";
    /// Key of the host for DH-HMAC-CHAP.
    pub const HOST_KEY: &str = "dhchap-host-key";
    /// Key of the controller for DH-HMAC-CHAP.
    pub const CONTROLLER_KEY: &str = "dhchap-controller-key";
    /// User of cephx, if it is a secret.
    pub const CEPHX_USER: &str = "cephx-user";
    /// Key of cephx.
    pub const CEPHX_KEY: &str = "cephx-key";
}

impl Iscsi {
    pub(super) fn strings(&self) -> Vec<&str> {
        let paths = self.paths.iter();
        let mut strings: Vec<&str> = paths
            .flat_map(|path| [path.portal.as_str(), path.target.as_str()])
            .collect();
        strings.push(&self.wwid);
        strings.extend(self.named_secrets().map(|(_, _, name)| name));
        strings
    }

    pub(super) fn named_secrets(&self) -> impl Iterator<Item = Named<'_>> {
        let chap = self
            .chap
            .iter()
            .flat_map(|chap| chap.named([option::CHAP_USER, option::CHAP_PASSWORD]));
        let mutual = self
            .mutual_chap
            .iter()
            .flat_map(|chap| chap.named([option::MUTUAL_CHAP_USER, option::MUTUAL_CHAP_PASSWORD]));
        chap.chain(mutual)
    }
}

impl Chap {
    fn named(&self, [user, password]: [&'static str; 2]) -> [Named<'_>; 2] {
        [
            (user, self.scope, &self.user),
            (password, self.scope, &self.password),
        ]
    }
}

impl Nvme {
    pub(super) fn strings(&self) -> Vec<&str> {
        let mut strings: Vec<&str> = self.addresses.iter().map(String::as_str).collect();
        strings.extend([self.subsystem.as_str(), self.namespace_id.as_str()]);
        strings.extend(self.named_secrets().map(|(_, _, name)| name));
        strings
    }

    pub(super) fn named_secrets(&self) -> impl Iterator<Item = Named<'_>> {
        self.dhchap.iter().flat_map(|dhchap| {
            let host = (option::HOST_KEY, dhchap.scope, dhchap.host_key.as_str());
            let controller = dhchap.controller_key.as_deref();
            let controller = controller.map(|name| (option::CONTROLLER_KEY, dhchap.scope, name));
            [Some(host), controller].into_iter().flatten()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Source;
    use crate::plan::tests::plan;
    use crate::secrets::Secrets;

    fn chap(scope: SecretScope) -> Chap {
        Chap {
            scope,
            user: "user".to_owned(),
            password: "key".to_owned(),
        }
    }

    fn secrets(of: &str) -> Secrets {
        let pair = |name: &str| (name.to_owned(), format!("{name} of {of}"));
        Secrets::from_iter([pair("user"), pair("key")])
    }

    #[test]
    fn each_secret_of_a_session_comes_from_its_own_scope() {
        let iscsi = Iscsi {
            paths: vec![IscsiPath {
                portal: "192.0.2.1:3260".to_owned(),
                target: "iqn.2026-01.example:a".to_owned(),
                lun: 1,
            }],
            wwid: "naa.6001405".to_owned(),
            minimum_paths: 1,
            wait_ms: 0,
            chap: Some(chap(SecretScope::Request)),
            mutual_chap: Some(chap(SecretScope::Backend)),
        };
        let strings = iscsi.strings();
        assert!(strings.contains(&"192.0.2.1:3260") && strings.contains(&"naa.6001405"));
        let plan = plan(Source::Iscsi(iscsi));
        let values = plan.secret_options(&secrets("request"), &secrets("backend"));
        assert_eq!(values.get(option::CHAP_USER), Some("user of request"));
        assert_eq!(values.get(option::CHAP_PASSWORD), Some("key of request"));
        let mutual = values.get(option::MUTUAL_CHAP_PASSWORD);
        assert_eq!(mutual, Some("key of backend"));
    }

    #[test]
    fn a_key_that_no_secret_has_is_left_out() {
        let nvme = Nvme {
            addresses: vec!["192.0.2.1:4420".to_owned()],
            subsystem: "nqn.2026-01.example:a".to_owned(),
            namespace_id: "00253858-0000-0000-0000-000000000001".to_owned(),
            minimum_paths: 1,
            wait_ms: 0,
            dhchap: Some(Dhchap {
                scope: SecretScope::Backend,
                host_key: "key".to_owned(),
                controller_key: Some("none".to_owned()),
            }),
        };
        let plan = plan(Source::Nvme(nvme));
        let values = plan.secret_options(&secrets("request"), &secrets("backend"));
        assert_eq!(values.get(option::HOST_KEY), Some("key of backend"));
        assert_eq!(values.get(option::CONTROLLER_KEY), None);
    }
}
