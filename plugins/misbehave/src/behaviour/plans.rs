//! Plans that violate a rule or exceed the grants, and steps outside of a plan.

use super::secrets::password;
use super::{Deed, Table, random};
use crate::POOL;
use wasmount_guest::bindings::imports::wasmount::csi::node_plan;
use wasmount_guest::secrets::Scope;
use wasmount_guest::{CephxUser, Error, File, ImageAccess, IscsiPath, Plan, Pool, RbdImage};

/// Records the steps for a volume with this id.
pub type Steps = fn(&Plan, &str) -> Result<(), Error>;

fn disk() -> IscsiPath {
    IscsiPath {
        portal: "192.0.2.1:3260".to_owned(),
        target: "iqn.2026-01.example:a".to_owned(),
        lun: 1,
    }
}

pub const PLANS: Table<Steps> = &[
    ("no-source", |_, _| Ok(())),
    ("two-sources", |plan, _| {
        plan.directory(&POOL, "a")?;
        // Continues as if the step had succeeded.
        let _ = plan.image(&POOL, "b");
        Ok(())
    }),
    ("error-after-source", |plan, _| {
        plan.directory(&POOL, "a")?;
        Err(Error::unavailable("changed my mind"))
    }),
    ("missing-source", |plan, _| plan.directory(&POOL, "nowhere")),
    ("parent-path", |plan, _| plan.directory(&POOL, "../../etc")),
    ("absolute-path", |plan, _| plan.directory(&POOL, "/etc")),
    ("nul-path", |plan, _| plan.directory(&POOL, "a\0b")),
    ("hosts-own-folder", |plan, _| {
        plan.directory(&POOL, ".wasmount")
    }),
    ("pool-not-granted", |plan, id| {
        plan.directory(&Pool::named("others"), id)
    }),
    ("filesystem-not-granted", |plan, _| {
        plan.filesystem("nfs4", "server:/export", &[], &[])
    }),
    ("tmpfs-not-granted", |plan, _| plan.tmpfs(None)),
    ("device-not-granted", |plan, _| {
        plan.device(&[("by-path", "pci-0000:00:00.0")], 0)
    }),
    ("any-device", |plan, _| {
        let alternatives: [&[_]; 2] = [
            &[("by-id", "virtio-a")],
            &[("serial", "a"), ("partition", "1")],
        ];
        plan.any_device(&alternatives, true, 7)
    }),
    ("nine-alternatives", |plan, _| {
        let facts: &[_] = &[("by-id", "virtio-a")];
        plan.any_device(&[facts; 9], false, 0)
    }),
    ("iscsi-not-granted", |plan, _| {
        plan.iscsi(&[disk()], "naa.6001405", 1, 0)
    }),
    ("nvme-not-granted", |plan, _| {
        let id = "00253858-0000-0000-0000-000000000001";
        plan.nvme(&["192.0.2.1:4420"], "nqn.2026-01.example:a", id, 1, 0)
    }),
    ("rbd-not-granted", |plan, _| {
        let image = RbdImage {
            cluster: "8b0b3a5e-0000-4000-8000-000000000001".into(),
            pool: "pool".into(),
            namespace: None,
            name: "image".into(),
            id: "10226b8b4567".into(),
        };
        plan.rbd(&["192.0.2.1:6789"], &image, ImageAccess::Shared)?;
        plan.cephx(&CephxUser::Name("user".into()), Scope::Request, "password")
    }),
    ("chap-of-no-secret", |plan, _| {
        plan.iscsi(&[disk()], "naa.6001405", 1, 0)?;
        plan.chap(Scope::Request, "no-such-user", "no-such-password")
    }),
    ("luks-of-no-secret", |plan, id| {
        plan.image(&POOL, id)?;
        plan.luks(Scope::Request, "no-such-key")
    }),
    ("luks-of-a-directory", |plan, id| {
        plan.directory(&POOL, id)?;
        plan.luks(Scope::Request, "password")
    }),
    ("chap-before-its-disk", |plan, _| {
        plan.chap(Scope::Request, "password", "password")
    }),
    ("option-not-granted", |plan, id| {
        plan.directory(&POOL, id)?;
        plan.mount_options(&["suid"])
    }),
    ("other-source-each-time", |plan, id| {
        plan.directory(&POOL, id)?;
        plan.note("random", &random().to_string())
    }),
    ("secret-in-plan", |plan, _| {
        let option = format!("password={}", password());
        plan.filesystem("cifs", "//server/share", &[&option], &[])
    }),
    ("secret-in-note", |plan, id| {
        plan.directory(&POOL, id)?;
        plan.note("password", &password())
    }),
    ("unknown-secret", |plan, _| {
        plan.filesystem("cifs", "//server/share", &[], &[("password", "no-such")])
    }),
    ("secret-by-name", |plan, _| {
        let secret = [("password", "password")];
        plan.filesystem("cifs", "//server/share", &["vers=3.1.1"], &secret)
    }),
    ("backend-secret-by-name", |plan, _| {
        plan.filesystem("cifs", "//server/share", &["vers=3.1.1"], &[])?;
        plan.backend_secret_options(&[("password", "account")])
    }),
    ("sealed-not-granted", |plan, _| {
        plan.filesystem("ceph", "192.0.2.1:/a", &[], &[])?;
        plan.sealed_secret_options(&[("secret", "wasmount.sealed.v1:AAAA")])
    }),
    ("huge-plan", |plan, _| {
        plan.directory(&POOL, "a")?;
        (0..1000).try_for_each(|number: u32| plan.note(&number.to_string(), &"n".repeat(100)))
    }),
    ("huge-files", |plan, _| {
        plan.files(&[File {
            path: "a".to_owned(),
            mode: 0o400,
            content: vec![0; (1 << 20) + 1],
        }])
    }),
];

/// Steps outside of a plan.
pub const OUTSIDE: Table<Deed> = &[
    ("step-outside", || node_plan::directory("volumes", "a")),
    ("ignored-step-outside", || {
        let _ = node_plan::tmpfs(None);
        Ok(())
    }),
];
