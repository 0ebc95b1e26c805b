//! The grants that a document needs so that a host executes a plan. It starts with all possible grants, and removes each one without which the host's
//! own check still passes. So there is no second list of rules.

use std::collections::BTreeSet;
use wasmount_core::device_fact::DeviceFact;
use wasmount_core::document::{
    AttachGrant, AttachProtocol, DeviceGrant, FilesystemGrant, Grants, PoolGrant, PoolStorage,
    Portals,
};
use wasmount_core::mounter::MountError;
use wasmount_core::plan::{Plan, Source};
use wasmount_core::volume::{AccessType, VolumeCapability};
use wasmount_mount::judge;

/// The contract's name of an empty file system in memory, and of the type that grants it.
const TMPFS: &str = "tmpfs";

/// The smallest set of grants, or why no grant helps.
pub(super) fn needed(
    plan: &Plan,
    capability: &VolumeCapability,
    readonly: bool,
) -> Result<Grants, MountError> {
    let suffices = |grants: &Grants| judge(plan, capability, readonly, grants);
    let mut options = options(plan, capability);
    let granted = |options: &[String], selinux_mount| Grants {
        selinux_mount,
        ..source(&plan.source, options)
    };
    suffices(&granted(&options, true))?;
    for option in options.clone() {
        let others: Vec<_> = options
            .iter()
            .filter(|it| **it != option)
            .cloned()
            .collect();
        if suffices(&granted(&others, true)).is_ok() {
            options = others;
        }
    }
    let without_labels = granted(&options, false);
    match suffices(&without_labels) {
        Ok(()) => Ok(without_labels),
        Err(_) => Ok(granted(&options, true)),
    }
}

/// The names of all options of plan and request, without duplicates.
fn options(plan: &Plan, capability: &VolumeCapability) -> Vec<String> {
    let mut all: Vec<&str> = plan.mount_options.iter().map(String::as_str).collect();
    if let AccessType::Mount(access) = &capability.access_type {
        all.extend(access.mount_flags.iter().map(String::as_str));
    }
    if let Source::Filesystem {
        options,
        secret_options,
        backend_secret_options,
        sealed_options,
        ..
    } = &plan.source
    {
        all.extend(options.iter().map(String::as_str));
        let secret = secret_options.iter().chain(backend_secret_options);
        let secret = secret.chain(sealed_options);
        all.extend(secret.map(|(name, _)| name.as_str()));
    }
    let names = all
        .into_iter()
        .filter_map(|option| option.split('=').next());
    let names: BTreeSet<_> = names.map(str::to_owned).collect();
    names.into_iter().collect()
}

/// The grants for this source and nothing else, with these options.
fn source(source: &Source, options: &[String]) -> Grants {
    let mount_options = options.to_vec();
    let mut grants = Grants::default();
    match source {
        Source::Directory { pool, path: _ } | Source::Image { pool, path: _ } => {
            let grant = PoolGrant {
                storage: PoolStorage::Directory(pool.into()),
                full_copies: false,
                mount_options,
            };
            grants.pools.insert(pool.clone(), grant);
        }
        Source::Device { facts, wait_ms: _ } => {
            grants.devices.push(device(facts, false, mount_options));
        }
        Source::AnyDevice {
            alternatives,
            rescan,
            wait_ms: _,
        } => {
            let each = alternatives.each().iter();
            let each = each.map(|facts| device(facts, *rescan, mount_options.clone()));
            grants.devices.extend(each);
        }
        Source::Iscsi(iscsi) => {
            let portals = iscsi.paths.iter().map(|path| &path.portal);
            let targets = iscsi.paths.iter().map(|path| &path.target);
            let grant = attach(AttachProtocol::Iscsi, portals, targets, mount_options);
            grants.attach.push(grant);
        }
        Source::Nvme(nvme) => {
            let (addresses, subsystem) = (&nvme.addresses, [&nvme.subsystem]);
            let grant = attach(AttachProtocol::NvmeTcp, addresses, subsystem, mount_options);
            grants.attach.push(grant);
        }
        Source::Rbd(rbd) => {
            let place = match &rbd.namespace {
                Some(namespace) => format!("{}/{namespace}", rbd.pool),
                None => rbd.pool.clone(),
            };
            let grant = attach(AttachProtocol::Rbd, &rbd.monitors, [&place], mount_options);
            grants.attach.push(grant);
        }
        Source::Filesystem {
            fs_type, source, ..
        } => grants.filesystems.push(FilesystemGrant {
            fs_type: fs_type.clone(),
            sources: vec![source.clone()],
            mount_options,
            max_bytes: None,
        }),
        Source::Tmpfs { size_bytes } => grants.filesystems.push(FilesystemGrant {
            fs_type: TMPFS.to_owned(),
            sources: Vec::new(),
            mount_options,
            max_bytes: *size_bytes,
        }),
        Source::Files { files: _ } => {}
    }
    grants
}

fn device(facts: &[(String, String)], rescan: bool, mount_options: Vec<String>) -> DeviceGrant {
    let known = facts
        .iter()
        .filter_map(|(name, value)| Some((DeviceFact::parse(name)?, value.clone())));
    DeviceGrant {
        facts: known.collect(),
        rescan,
        mount_options,
    }
}

/// The grant of these portals and targets alone. What is no portal is left out: the host's check says so.
fn attach<'s>(
    protocol: AttachProtocol,
    portals: impl IntoIterator<Item = &'s String>,
    targets: impl IntoIterator<Item = &'s String>,
    mount_options: Vec<String>,
) -> AttachGrant {
    let targets: BTreeSet<_> = targets.into_iter().cloned().collect();
    AttachGrant {
        protocol,
        portals: portals
            .into_iter()
            .filter_map(|portal| Some(Portals::of(portal.parse().ok()?)))
            .collect(),
        targets: targets.into_iter().collect(),
        mount_options,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use wasmount_core::plan::Iscsi;
    use wasmount_core::plan::attached::IscsiPath;
    use wasmount_core::volume::{AccessMode, MountAccess};

    fn plan(source: Source, options: &[&str]) -> Plan {
        Plan {
            source,
            default_fs_type: None,
            mount_options: options.iter().map(|it| (*it).to_owned()).collect(),
            notes: BTreeMap::new(),
            luks: None,
        }
    }

    fn mounted(flags: &[&str]) -> VolumeCapability {
        VolumeCapability {
            access_type: AccessType::Mount(MountAccess {
                mount_flags: flags.iter().map(|it| (*it).to_owned()).collect(),
                ..MountAccess::default()
            }),
            access_mode: AccessMode::SingleNodeWriter,
        }
    }

    fn path(number: u16) -> IscsiPath {
        IscsiPath {
            portal: format!("192.0.2.{number}:3260"),
            target: "iqn.2026-01.example:a".to_owned(),
            lun: 1,
        }
    }

    fn tree() -> Source {
        Source::Directory {
            pool: "p".to_owned(),
            path: "a".to_owned(),
        }
    }

    #[test]
    fn only_what_the_host_would_miss_is_needed() {
        let of = |plan: &Plan, flags: &[&str]| needed(plan, &mounted(flags), false).unwrap();
        let grants = of(&plan(tree(), &["ro", "suid"]), &["noatime", "dev"]);
        assert_eq!(grants.pools["p"].mount_options, ["dev", "suid"]);
        assert!(!grants.selinux_mount && grants.filesystems.is_empty());
        let device = Source::Device {
            facts: vec![("serial".to_owned(), "x".to_owned())],
            wait_ms: 0,
        };
        let grants = of(&plan(device, &[]), &[]);
        let facts = BTreeMap::from([(DeviceFact::Serial, "x".to_owned())]);
        assert_eq!(grants.devices[0].facts, facts);
        let set = |fact: &str| vec![(fact.to_owned(), "x".to_owned())];
        let device = Source::AnyDevice {
            alternatives: vec![set("serial"), set("wwid")].try_into().unwrap(),
            rescan: true,
            wait_ms: 0,
        };
        let grants = of(&plan(device, &[]), &[]);
        let facts: Vec<_> = grants.devices.iter().map(|it| &it.facts).collect();
        let granted = |fact| BTreeMap::from([(fact, "x".to_owned())]);
        assert_eq!(
            facts,
            [&granted(DeviceFact::Serial), &granted(DeviceFact::Wwid)]
        );
        assert!(grants.devices.iter().all(|it| it.rescan));
        let disk = Source::Iscsi(Iscsi {
            paths: [0, 1].map(path).into(),
            wwid: "naa.6001405".to_owned(),
            minimum_paths: 1,
            wait_ms: 0,
            chap: None,
            mutual_chap: None,
        });
        let grants = of(&plan(disk, &[]), &[]);
        assert_eq!(grants.attach[0].portals.len(), 2);
        assert_eq!(grants.attach[0].targets, ["iqn.2026-01.example:a"]);
        let files = Source::Files { files: Vec::new() };
        assert_eq!(of(&plan(files, &[]), &[]), Grants::default());
        let memory = Source::Tmpfs {
            size_bytes: Some(7),
        };
        let grants = of(&plan(memory, &[]), &["context=system_u:object_r:a_t:s0"]);
        assert_eq!(grants.filesystems[0].max_bytes, Some(7));
        assert!(grants.selinux_mount && grants.filesystems[0].mount_options.is_empty());
    }

    #[test]
    fn what_no_grant_allows_is_rejected_as_by_the_host() {
        let outside = Source::Directory {
            pool: "p".to_owned(),
            path: "../a".to_owned(),
        };
        let refused = needed(&plan(outside, &[]), &mounted(&[]), false).unwrap_err();
        let all = source(&tree(), &[]);
        let outside = Source::Directory {
            pool: "p".to_owned(),
            path: "../a".to_owned(),
        };
        let hosts = judge(&plan(outside, &[]), &mounted(&[]), false, &all).unwrap_err();
        assert_eq!(refused.to_string(), hosts.to_string());
        let smuggled = plan(tree(), &["ro,suid"]);
        assert!(needed(&smuggled, &mounted(&[]), false).is_err());
    }
}
