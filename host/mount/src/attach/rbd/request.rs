//! What the kernel is told to map an image: one line (`rbd_add_parse_args` of drivers/block/rbd.c), and a key beside it.

use crate::block::loop_device::digits;
use crate::failure::kernel;
use crate::plan::attach::{CephName, RbdImage};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use rustix::io::Errno;
use std::ffi::CString;
use wasmount_core::mounter::MountError;
use wasmount_core::names::DriverName;
use wasmount_core::plan::attached::option;
use wasmount_core::plan::rbd::ImageAccess;
use wasmount_core::secrets::SecretOptions;
use zeroize::Zeroizing;

/// Distinguishes maps of this host from all others.
const PREFIX: &str = "wasmount-";
/// Seconds for the first answer of the monitors: a call's default budget is 60 s.
const MONITOR_SECONDS: u32 = 30;
/// Seconds for the lock of an image that another node has: a live one gives it away at once, or refuses to.
const LOCK_SECONDS: u32 = 30;
/// Seconds after which a request that the cluster does not answer fails, by default never: a teardown would wait for as long. As for disks by NVMe, whose
/// kernel client has this default: an array restarts within it, and what hangs on a lost one ends.
const FAIL_AFTER_SECONDS: u32 = 600;
/// Size of a key, in bytes: type, time, length (`ceph_crypto_key_decode` of net/ceph/crypto.c), and 16 bytes or more.
const KEY_BYTES: std::ops::RangeInclusive<usize> = 28..=128;

/// The line, without the key.
pub(super) struct Request {
    pub(super) text: String,
    pub(super) key_name: CString,
}

/// Who maps an image.
pub(super) struct Credentials {
    pub(super) user: CephName,
    pub(super) key: Zeroizing<Vec<u8>>,
}

/// The name of a driver's key in its maps. The first 24 digits of a hash: no two drivers have the same.
pub(super) fn key_name(driver: &DriverName) -> String {
    format!("{PREFIX}{}", digits(&[driver.as_str()]))
}

impl Request {
    pub(super) fn of(image: &RbdImage, user: &CephName, key_name: &str) -> Self {
        let monitors: Vec<_> = image.monitors.iter().map(ToString::to_string).collect();
        let mut options = vec![
            format!("name={user}"),
            format!("key={key_name}"),
            format!("mount_timeout={MONITOR_SECONDS}"),
            format!("osd_request_timeout={FAIL_AFTER_SECONDS}"),
        ];
        if image.is_messenger_2 {
            // Encrypted if the cluster wants that, otherwise with checksums.
            options.push("ms_mode=prefer-crc".to_owned());
        }
        match image.access {
            ImageAccess::Shared => options.push("rw".to_owned()),
            ImageAccess::Exclusive => {
                options.push(format!("rw,exclusive,lock_timeout={LOCK_SECONDS}"));
            }
            ImageAccess::ReadOnly => options.push("ro".to_owned()),
        }
        options.extend(image.namespace.iter().map(|it| format!("_pool_ns={it}")));
        let text = format!(
            "{} {} {} {} -",
            monitors.join(","),
            options.join(","),
            image.pool,
            image.name
        );
        // Its characters are letters, digits and a hyphen.
        let key_name = CString::new(key_name).unwrap_or_default();
        Self { text, key_name }
    }
}

impl Credentials {
    pub(super) fn parse(image: &RbdImage, secrets: &SecretOptions) -> Result<Self, MountError> {
        let invalid = |reason: &str| MountError::unusable(image, reason);
        let of_secret = || {
            let user = secrets.get(option::CEPHX_USER);
            let user = user.and_then(|user| CephName::of_user(user.trim_end()));
            user.ok_or_else(|| {
                invalid("the secret with its user is no name of one, without `client.`: correct the Secret")
            })
        };
        let user = image.user.clone().map_or_else(of_secret, Ok)?;
        let key = secrets
            .get(option::CEPHX_KEY)
            .unwrap_or_default()
            .trim_end();
        let key = BASE64.decode(key).map(Zeroizing::new).ok();
        let key = key.filter(|key| KEY_BYTES.contains(&key.len()));
        let key = key.ok_or_else(|| {
            invalid(
                "its secret is no key of Ceph: give what `ceph auth get-key client.USER` prints",
            )
        })?;
        Ok(Self { user, key })
    }
}

/// Why the kernel did not map an image.
pub(super) fn refused(image: &RbdImage, errno: Errno) -> MountError {
    let reason = match errno {
        Errno::NOENT => {
            return MountError::not_found(format!("{image}, or its pool or namespace"));
        }
        Errno::ROFS | Errno::BUSY => {
            return MountError::in_use(image, "another node has its exclusive lock");
        }
        Errno::TIMEDOUT
        | Errno::IO
        | Errno::CONNREFUSED
        | Errno::HOSTUNREACH
        | Errno::NETUNREACH => {
            let reason = "the monitors, or the node that has its lock, do not answer; look at the kernel's log";
            return MountError::hung(image, reason);
        }
        Errno::PERM | Errno::ACCESS | Errno::NOKEY | Errno::KEYREJECTED => {
            "Ceph refuses its user: the key is another one, or the user has no rights to the pool (`profile rbd`)"
        }
        Errno::NXIO => {
            "it has features that this kernel does not know; look at the kernel's log, and create images with fewer (`imageFeatures`)"
        }
        Errno::INVAL => {
            "the kernel does not take its options; it lacks the feature `exclusive-lock`, or the kernel is older than 5.11: look at its log"
        }
        Errno::SHUTDOWN => "Ceph has this node on its blocklist (`ceph osd blocklist ls`)",
        _ => return kernel("map", image, errno),
    };
    MountError::unusable(image, reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::attach::Attachment;
    use wasmount_core::plan::Source;
    use wasmount_core::plan::attached::SecretScope;
    use wasmount_core::plan::rbd::{Cephx, CephxUser, Rbd};

    const KEY: &str = "AQBnrwVlAAAAABAAq2Yx9yJyQqZ1gJvJb5i7Kw==";

    fn image(change: impl FnOnce(&mut Rbd)) -> RbdImage {
        let mut rbd = Rbd {
            monitors: vec!["10.1.3.1:6789".to_owned(), "[fd00::1]:6789".to_owned()],
            cluster: "8b0b3a5e-0000-4000-8000-000000000001".to_owned(),
            pool: "kubernetes".to_owned(),
            namespace: None,
            image: "csi-vol-a".to_owned(),
            image_id: "10226b8b4567".to_owned(),
            access: ImageAccess::Shared,
            cephx: Some(Cephx {
                user: CephxUser::Name("csi".to_owned()),
                scope: SecretScope::Backend,
                key: "key".to_owned(),
            }),
        };
        change(&mut rbd);
        match Attachment::of(&Source::Rbd(rbd)).unwrap() {
            Some(Attachment::Rbd(image)) => image,
            other => panic!("{other:?}"),
        }
    }

    fn text(image: &RbdImage) -> String {
        let user = CephName::of_user("csi").unwrap();
        Request::of(image, &user, "wasmount-a").text
    }

    fn credentials(user: Option<&str>, key: &str) -> Result<CephName, String> {
        let image = image(|rbd| {
            if let (Some(_), Some(cephx)) = (user, &mut rbd.cephx) {
                cephx.user = CephxUser::Secret("userID".to_owned());
            }
        });
        let user = user.map(|it| (option::CEPHX_USER.to_owned(), it.to_owned()));
        let key = (option::CEPHX_KEY.to_owned(), key.to_owned());
        let parsed = Credentials::parse(&image, &user.into_iter().chain([key]).collect());
        parsed.map(|it| it.user).map_err(|error| error.to_string())
    }

    #[test]
    fn the_kernel_is_told_an_image_without_its_key() {
        let common = "name=csi,key=wasmount-a,mount_timeout=30,osd_request_timeout=600";
        assert_eq!(
            text(&image(|_| {})),
            format!("10.1.3.1:6789,[fd00::1]:6789 {common},rw kubernetes csi-vol-a -")
        );
        let changed = image(|rbd| {
            rbd.monitors = vec!["10.1.3.1:3300".to_owned()];
            rbd.namespace = Some("tenant".to_owned());
            rbd.access = ImageAccess::Exclusive;
        });
        assert_eq!(
            text(&changed),
            format!(
                "10.1.3.1:3300 {common},ms_mode=prefer-crc,rw,exclusive,lock_timeout=30,_pool_ns=tenant kubernetes csi-vol-a -"
            )
        );
        let read = text(&image(|rbd| rbd.access = ImageAccess::ReadOnly));
        assert!(read.contains(",ro kubernetes"), "{read}");
    }

    #[test]
    fn a_user_is_the_plans_or_a_secret() {
        let user = |user| credentials(user, KEY).map(|it| it.to_string());
        assert_eq!(user(None), Ok("csi".to_owned()));
        assert_eq!(user(Some("node\n")), Ok("node".to_owned()));
        for no_user in ["", "a,secret=b", "a b"] {
            let refused = user(Some(no_user)).unwrap_err();
            assert!(refused.contains("is no name of one"), "{refused}");
        }
    }

    #[test]
    fn what_is_no_key_is_refused_and_not_shown() {
        for key in ["", "password", "not-base64!", "c2hvcnQ=", &KEY.repeat(9)] {
            let refused = credentials(None, key).unwrap_err();
            assert!(refused.contains("is no key of Ceph"), "{refused}");
            assert!(key.is_empty() || !refused.contains(key));
        }
        assert!(credentials(None, &format!("{KEY}\n")).is_ok());
    }

    #[test]
    fn keys_of_drivers_have_names_of_their_own() {
        let named = |driver: &str| key_name(&DriverName::parse(driver).unwrap());
        // `printf a.test | sha256sum`: other versions of the host must find what this one left.
        assert_eq!(named("a.test"), "wasmount-52dcf5eeb77a59de2eb72211");
        assert_ne!(named("a.test"), named("b.test"));
    }

    #[test]
    fn a_refusal_says_whether_it_may_pass() {
        let image = image(|_| {});
        for (errno, passes) in [
            (Errno::TIMEDOUT, true),
            (Errno::IO, true),
            (Errno::PERM, false),
            (Errno::NXIO, false),
            (Errno::INVAL, false),
        ] {
            let refused = refused(&image, errno);
            assert_eq!(matches!(refused, MountError::Hung(_)), passes, "{refused}");
        }
        assert!(matches!(
            refused(&image, Errno::NOENT),
            MountError::NotFound(_)
        ));
        assert!(matches!(refused(&image, Errno::ROFS), MountError::InUse(_)));
    }
}
