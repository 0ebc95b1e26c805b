//! The step `rbd`: an image of a Ceph cluster. Its names become words of what the kernel is told, so they have few characters.

use super::{invalid, portal};
use crate::failure::shown;
use crate::plan::is_name;
use std::fmt;
use std::net::SocketAddr;
use uuid::Uuid;
use wasmount_core::fault::{Blame, Owner};
use wasmount_core::mounter::MountError;
use wasmount_core::plan::Rbd;
use wasmount_core::plan::attached::PATHS;
use wasmount_core::plan::rbd::{CephxUser, ImageAccess};

const STEP: &str = "rbd";
/// Longest name of a pool, a namespace or a user, and longest id of an image (`RBD_IMAGE_ID_LEN_MAX` of drivers/block/rbd.c), in bytes. With them the
/// identity of an image has less than the 256 bytes of a fact of a device.
const NAME_BYTES: usize = 64;
/// Longest name of an image, in bytes: those of ceph-csi have 44, and one of Kubernetes has 63 beside a prefix.
const IMAGE_BYTES: usize = 128;
/// The port of the messenger protocol 2 (Ceph's documentation, "Messenger v2"). The kernel speaks one protocol with all monitors.
const MESSENGER_2: u16 = 3300;

/// An image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RbdImage {
    /// Never empty.
    pub(crate) monitors: Vec<SocketAddr>,
    /// Whether they speak the messenger protocol 2.
    pub(crate) is_messenger_2: bool,
    pub(crate) cluster: Uuid,
    pub(crate) pool: CephName,
    pub(crate) namespace: Option<CephName>,
    pub(crate) name: CephName,
    /// Its identity in pool and namespace.
    pub(crate) id: CephName,
    /// Pool, or pool and namespace, as grants name them.
    pub(super) place: String,
    pub(crate) access: ImageAccess,
    /// `None`: it is a secret.
    pub(crate) user: Option<CephName>,
}

/// A name in Ceph: no part of a path, and no word of an option.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CephName(String);

impl RbdImage {
    pub(super) fn of(rbd: &Rbd) -> Result<Self, MountError> {
        let monitors = monitors(&rbd.monitors)?;
        let is_messenger_2 = monitors.iter().all(|it| it.port() == MESSENGER_2);
        let cluster = &rbd.cluster;
        // Others are not in the form that sysfs shows.
        let parsed = Uuid::try_parse(cluster).ok();
        let parsed = parsed.filter(|it| it.to_string() == *cluster);
        let parsed = parsed.ok_or_else(|| {
            let reason = format!(
                "`{}` must be a UUID in lower case, as `ceph fsid` prints it",
                shown(cluster)
            );
            invalid(STEP, "cluster", reason, Blame::argument(cluster))
        })?;
        let name = |argument, text: &str| name(argument, text, NAME_BYTES);
        let pool = name("pool", &rbd.pool)?;
        let namespace = rbd.namespace.as_deref();
        let namespace = namespace.map(|it| name("namespace", it)).transpose()?;
        let place = match &namespace {
            Some(namespace) => format!("{pool}/{namespace}"),
            None => pool.to_string(),
        };
        let cephx = rbd.cephx.as_ref().ok_or_else(|| {
            let reason = "it needs the step `cephx`, which says who maps the image".to_owned();
            invalid(STEP, "user", reason, Blame::Of(Owner::Plugin))
        })?;
        let user = match &cephx.user {
            CephxUser::Name(user) => Some(name("user", user)?),
            CephxUser::Secret(_) => None,
        };
        Ok(Self {
            monitors,
            is_messenger_2,
            cluster: parsed,
            pool,
            namespace,
            name: self::name("image", &rbd.image, IMAGE_BYTES)?,
            id: name("image-id", &rbd.image_id)?,
            place,
            access: rbd.access,
            user,
        })
    }

    /// The identity, as the host shows that of a mapped image.
    pub(crate) fn wwid(&self) -> String {
        let namespace = self.namespace.as_ref().map_or("", CephName::as_str);
        wwid(
            &self.cluster.to_string(),
            self.pool.as_str(),
            namespace,
            self.id.as_str(),
        )
    }

    /// Whether both are one image, or one name.
    pub(super) fn is_same_image(&self, other: &Self) -> bool {
        let is_in_one_place = self.cluster == other.cluster && self.place == other.place;
        is_in_one_place && (self.id == other.id || self.name == other.name)
    }
}

impl CephName {
    /// `None`: it is no name.
    pub(crate) fn parse(text: &str, bytes: usize) -> Option<Self> {
        is_name(text, bytes).then(|| Self(text.to_owned()))
    }

    /// A user whose name came as a secret.
    pub(crate) fn of_user(text: &str) -> Option<Self> {
        Self::parse(text, NAME_BYTES)
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for CephName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Text of an image for messages.
impl fmt::Display for RbdImage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RBD image {}/{}", self.place, self.name)
    }
}

/// The identity of an image as a fact of its device. No name of a plan has a colon, so that no two images have one identity.
pub(crate) fn wwid(cluster: &str, pool: &str, namespace: &str, id: &str) -> String {
    format!("rbd.{cluster}:{pool}:{namespace}:{id}")
}

fn monitors(texts: &[String]) -> Result<Vec<SocketAddr>, MountError> {
    const ARGUMENT: &str = "monitors";
    let count = texts.len();
    if !(1..=PATHS).contains(&count) {
        let reason = format!("there are {count}, and 1 to {PATHS} are possible");
        return Err(invalid(STEP, ARGUMENT, reason, Blame::Size(PATHS)));
    }
    let monitors = texts.iter().map(|text| portal(STEP, text));
    let monitors = monitors.collect::<Result<Vec<_>, _>>()?;
    let of_2 = monitors
        .iter()
        .filter(|it| it.port() == MESSENGER_2)
        .count();
    if of_2 != 0 && of_2 != count {
        let reason = format!(
            "some have port {MESSENGER_2}, which is that of another protocol: give one port of each monitor, {MESSENGER_2} of all or of none"
        );
        return Err(invalid(
            STEP,
            ARGUMENT,
            reason,
            Blame::Of(Owner::Administrator),
        ));
    }
    Ok(monitors)
}

fn name(argument: &str, text: &str, bytes: usize) -> Result<CephName, MountError> {
    CephName::parse(text, bytes).ok_or_else(|| {
        let reason = format!(
            "`{}` is no name: it has 1 to {bytes} bytes, and letters, digits, `-`, `_` and `.` alone",
            shown(text)
        );
        invalid(STEP, argument, reason, Blame::argument(text))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::attach::{Attachment, check};
    use wasmount_core::document::{AttachGrant, AttachProtocol, Grants, Portals};
    use wasmount_core::plan::Source;
    use wasmount_core::plan::attached::SecretScope;
    use wasmount_core::plan::rbd::Cephx;

    const CLUSTER: &str = "8b0b3a5e-0000-4000-8000-000000000001";

    fn image() -> Rbd {
        Rbd {
            monitors: vec!["10.1.3.1:6789".to_owned(), "[fd00::1]:6789".to_owned()],
            cluster: CLUSTER.to_owned(),
            pool: "kubernetes".to_owned(),
            namespace: None,
            image: "csi-vol-a".to_owned(),
            image_id: "10226b8b4567".to_owned(),
            access: ImageAccess::Exclusive,
            cephx: Some(Cephx {
                user: CephxUser::Name("csi".to_owned()),
                scope: SecretScope::Backend,
                key: "key".to_owned(),
            }),
        }
    }

    fn with(change: impl FnOnce(&mut Rbd)) -> Result<RbdImage, String> {
        let mut image = image();
        change(&mut image);
        RbdImage::of(&image).map_err(|error| error.to_string())
    }

    fn in_namespace(name: &str) -> Rbd {
        Rbd {
            namespace: Some(name.to_owned()),
            ..image()
        }
    }

    fn checked(rbd: Rbd, pools: &[&str]) -> Result<String, String> {
        let grant = AttachGrant {
            protocol: AttachProtocol::Rbd,
            portals: ["10.1.3.0/24:6789", "[fd00::/64]:6789"]
                .map(|it| Portals::parse(it).unwrap())
                .to_vec(),
            targets: pools.iter().map(|it| (*it).to_owned()).collect(),
            mount_options: Vec::new(),
        };
        let grants = Grants {
            attach: vec![grant],
            ..Grants::default()
        };
        let device = check(&Source::Rbd(rbd), &grants).map_err(|error| error.to_string())?;
        let mut facts = device.alternatives.iter().flat_map(|it| it.values());
        Ok(facts.next().unwrap().clone())
    }

    #[test]
    fn a_granted_image_is_found_by_its_identity() {
        let wwid = format!("rbd.{CLUSTER}:kubernetes::10226b8b4567");
        assert_eq!(checked(image(), &["kubernetes"]), Ok(wwid));
        let wwid = format!("rbd.{CLUSTER}:kubernetes:tenant:10226b8b4567");
        for pools in [&["kubernetes/tenant"], &["kubernetes/*"], &["*"]] {
            assert_eq!(checked(in_namespace("tenant"), pools), Ok(wwid.clone()));
        }
    }

    #[test]
    fn a_pool_without_its_grant_is_refused_with_the_line_to_add() {
        for (image, pool) in [
            (image(), "kubernetes/*"),
            (image(), "kube"),
            (in_namespace("tenant"), "kubernetes"),
            (in_namespace("tenant"), "kubernetes/other"),
        ] {
            let refused = checked(image, &[pool]).unwrap_err();
            assert!(
                refused.contains("add `{ protocol: rbd, monitors: [\"10.1.3.1:6789\", \"[fd00::1]:6789\"], pools: [\"kubernetes"),
                "{refused}"
            );
        }
    }

    #[test]
    fn monitors_speak_one_protocol() {
        let ports = |ports: [u16; 2]| {
            with(|it| it.monitors = ports.map(|port| format!("10.1.3.1:{port}")).to_vec())
        };
        assert!(!ports([6789, 6790]).unwrap().is_messenger_2);
        assert!(ports([3300, 3300]).unwrap().is_messenger_2);
        let refused = ports([6789, 3300]).unwrap_err();
        assert!(refused.contains("3300 of all or of none"), "{refused}");
        for monitors in [Vec::new(), vec!["10.1.3.1:6789".to_owned(); PATHS + 1]] {
            let refused = with(|it| it.monitors = monitors).unwrap_err();
            assert!(refused.contains("1 to 16 are possible"), "{refused}");
        }
    }

    #[test]
    fn names_are_no_paths_and_no_words_of_options() {
        let long = "a".repeat(IMAGE_BYTES + 1);
        for name in ["", "a b", "a,b", "a/b", "a@b", "a:b", "a\n", "ä", &long] {
            let changes: [fn(&mut Rbd, String); 4] = [
                |it, name| it.pool = name,
                |it, name| it.namespace = Some(name),
                |it, name| it.image = name,
                |it, name| it.image_id = name,
            ];
            for change in changes {
                let refused = with(|it| change(it, name.to_owned())).unwrap_err();
                assert!(refused.contains("is no name"), "{refused}");
            }
        }
        assert_eq!(
            with(|it| it.image = "a".repeat(IMAGE_BYTES)).map(drop),
            Ok(())
        );
    }

    #[test]
    fn an_image_without_user_or_cluster_is_refused() {
        let refused = with(|it| it.cephx = None).unwrap_err();
        assert!(refused.contains("needs the step `cephx`"), "{refused}");
        for cluster in ["", "ceph", &CLUSTER.to_uppercase()] {
            let refused = with(|it| it.cluster = cluster.to_owned()).unwrap_err();
            assert!(refused.contains("`ceph fsid`"), "{refused}");
        }
    }

    #[test]
    fn an_image_is_shared_by_identity_or_name() {
        let attachment = |rbd: Rbd| Attachment::of(&Source::Rbd(rbd)).unwrap().unwrap();
        let one = attachment(image());
        let named = |name: &str, id: &str| {
            attachment(Rbd {
                image: name.to_owned(),
                image_id: id.to_owned(),
                ..image()
            })
        };
        assert!(one.shares_disk_with(&named("other", "10226b8b4567")));
        assert!(one.shares_disk_with(&named("csi-vol-a", "1")));
        assert!(!one.shares_disk_with(&named("other", "1")));
        assert!(!one.shares_disk_with(&attachment(in_namespace("tenant"))));
    }
}
