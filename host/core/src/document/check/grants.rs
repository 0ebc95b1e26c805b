//! The grants of a document: pools, file systems, devices and systems on the network that a plugin may use.

use super::{
    Checked, attach, bytes, few, file_path, network, node_facts, non_empty, options, pattern,
    patterns, sealing,
};
use crate::device_fact::DeviceFact;
use crate::document::{
    DeviceGrant, FilesystemGrant, Grants, KeyPath, PoolGrant, PoolMount, PoolStorage, raw,
};
use std::collections::BTreeSet;
use std::path::{Component, PathBuf};

/// All grants of a document.
pub(super) fn checked(
    key: &KeyPath,
    grants: raw::Grants,
    secrets: &BTreeSet<String>,
) -> Checked<Grants> {
    let raw::Grants {
        pools,
        filesystems,
        devices,
        attach,
        network,
        node_facts,
        nodes,
        sealing,
    } = grants;
    let pools_key = key.key("pools");
    few(&pools_key, pools.len())?;
    let pools = pools_key.each_value(pools, |key, name, pool| {
        non_empty(key, &name)?;
        Ok((name, pool_grant(key, pool)?))
    })?;
    let list_key = key.key("filesystems");
    few(&list_key, filesystems.len())?;
    let mut types = BTreeSet::new();
    let filesystems = list_key.each(filesystems, |key, filesystem| {
        let grant = filesystem_grant(key, filesystem)?;
        let twice = format!("`{}` is listed twice; merge the two entries", grant.fs_type);
        key.key("type")
            .ensure(types.insert(grant.fs_type.clone()), &twice)?;
        Ok(grant)
    })?;
    let list_key = key.key("devices");
    few(&list_key, devices.len())?;
    let attach_key = key.key("attach");
    few(&attach_key, attach.len())?;
    Ok(Grants {
        pools,
        filesystems,
        devices: list_key.each(devices, device_grant)?,
        attach: attach_key.each(attach, attach::attach_grant)?,
        network: network::checked(&key.key("network"), network, secrets)?,
        node_facts: node_facts::checked(&key.key("nodeFacts"), node_facts)?,
        nodes: node_facts::checked(&key.key("nodes"), nodes)?,
        sealing: sealing
            .map(|grant| sealing::checked(&key.key("sealing"), grant, secrets))
            .transpose()?,
        ..Grants::default()
    })
}

fn pool_grant(key: &KeyPath, pool: raw::Pool) -> Checked<PoolGrant> {
    let raw::Pool {
        path,
        mount,
        full_copies,
        mount_options,
    } = pool;
    let options_key = key.key("mountOptions");
    let storage = match (path, mount) {
        (Some(path), None) => PoolStorage::Directory(pool_path(&key.key("path"), path)?),
        (None, Some(mount)) => {
            options_key.ensure(
                mount_options.is_empty(),
                "no volume is staged from such a pool; grant options in `filesystems`",
            )?;
            PoolStorage::Mount(pool_mount(&key.key("mount"), mount)?)
        }
        _ => return Err(key.invalid("needs `path` or `mount`, and not both")),
    };
    Ok(PoolGrant {
        storage,
        full_copies,
        mount_options: options(&options_key, mount_options)?,
    })
}

fn pool_path(path_key: &KeyPath, path: String) -> Checked<PathBuf> {
    let path = file_path(path_key, path)?;
    let leads_up = path.components().any(|part| part == Component::ParentDir);
    path_key.ensure(!leads_up, "must not contain `..`")?;
    // Otherwise the host's own directory could lie beside the node's, or the data directory within a plugin's reach.
    let is_name = |part: Component<'_>| matches!(part, Component::Normal(_));
    path_key.ensure(
        path.components().any(is_name),
        "must be a directory for the pool alone",
    )?;
    Ok(path)
}

/// The form alone: what the source may be, the mounter checks as for every file system.
fn pool_mount(key: &KeyPath, mount: raw::PoolMount) -> Checked<PoolMount> {
    let raw::PoolMount {
        fs_type,
        source,
        options: mount_options,
    } = mount;
    key.key("type").ensure(
        PoolMount::TYPES.contains(&fs_type.as_str()),
        &format!("must be {}", PoolMount::TYPES.join(" or ")),
    )?;
    let source_key = key.key("source");
    non_empty(&source_key, &source)?;
    source_key.ensure(
        !source.contains('*'),
        "must be one source, such as `server:/export`, and no pattern",
    )?;
    let options_key = key.key("options");
    few(&options_key, mount_options.len())?;
    Ok(PoolMount {
        fs_type,
        source,
        options: options(&options_key, mount_options)?,
    })
}

fn filesystem_grant(key: &KeyPath, filesystem: raw::Filesystem) -> Checked<FilesystemGrant> {
    let raw::Filesystem {
        fs_type,
        sources,
        mount_options,
        max_bytes,
    } = filesystem;
    let sources_key = key.key("sources");
    let max_key = key.key("maxBytes");
    let in_memory = fs_type == "tmpfs";
    non_empty(&key.key("type"), &fs_type)?;
    sources_key.ensure(
        !in_memory || sources.is_empty(),
        "a tmpfs has no source; remove `sources`",
    )?;
    sources_key.ensure(
        in_memory || !sources.is_empty(),
        "grants nothing; name sources, such as `server:/export/*`",
    )?;
    max_key.ensure(
        in_memory || max_bytes.is_none(),
        "only a tmpfs can be bounded by the host",
    )?;
    Ok(FilesystemGrant {
        fs_type,
        sources: patterns(&sources_key, sources)?,
        mount_options: options(&key.key("mountOptions"), mount_options)?,
        max_bytes: max_bytes
            .map(|amount| bytes(&max_key, &amount))
            .transpose()?,
    })
}

/// At least one fact must distinguish devices: otherwise the grant would cover every disk of the node, including the system disk.
fn device_grant(key: &KeyPath, device: raw::Device) -> Checked<DeviceGrant> {
    let raw::Device {
        facts,
        rescan,
        mount_options,
    } = device;
    let facts_key = key.key("facts");
    let facts = facts_key.each_value(facts, |key, name, value| {
        let fact = DeviceFact::parse(&name).ok_or_else(|| {
            key.invalid(format!("unknown fact; known are {}", DeviceFact::names()))
        })?;
        let checked = match pattern(key, &value)? {
            Some(start) => fact.check_start(start),
            None => fact.check_value(&value),
        };
        checked.map_err(|fault| key.invalid(fault))?;
        Ok((fact, value))
    })?;
    let identifies =
        |(fact, pattern): (&DeviceFact, &String)| *fact != DeviceFact::Partition && pattern != "*";
    facts_key.ensure(
        facts.iter().any(identifies),
        "would grant disks of every kind; name a fact other than `partition` with more than `*`, such as `by-id: \"scsi-0Acme_*\"`",
    )?;
    Ok(DeviceGrant {
        facts,
        rescan,
        mount_options: options(&key.key("mountOptions"), mount_options)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(facts: &[(&str, &str)], mount_options: &[&str]) -> Result<DeviceGrant, String> {
        let owned = |text: &&str| (*text).to_owned();
        let device = raw::Device {
            facts: facts
                .iter()
                .map(|(fact, pattern)| (owned(fact), owned(pattern)))
                .collect(),
            rescan: true,
            mount_options: mount_options.iter().map(owned).collect(),
        };
        device_grant(&KeyPath::of("devices").index(0), device).map_err(|fault| fault.to_string())
    }

    #[test]
    fn a_device_is_granted_by_patterns_of_its_facts() {
        let granted = device(
            &[
                ("by-id", "scsi-0Acme_*"),
                ("partition", "1"),
                ("serial", "*"),
            ],
            &["discard"],
        );
        let facts = [
            (DeviceFact::ById, "scsi-0Acme_*".to_owned()),
            (DeviceFact::Partition, "1".to_owned()),
            (DeviceFact::Serial, "*".to_owned()),
        ];
        assert_eq!(
            granted,
            Ok(DeviceGrant {
                facts: facts.into(),
                rescan: true,
                mount_options: vec!["discard".to_owned()],
            })
        );
        assert!(device(&[("wwid", "naa.6001405")], &[]).is_ok());
        assert!(device(&[("by-id", "dm-uuid-mpath-*")], &[]).is_ok());
    }

    #[test]
    fn a_grant_of_every_disk_is_refused() {
        let everything = "devices[0].facts: would grant disks of every kind; name a fact other than `partition` with more than `*`, such as `by-id: \"scsi-0Acme_*\"`";
        for facts in [
            &[][..],
            &[("by-id", "*")],
            &[("by-id", "*"), ("serial", "*")],
            &[("partition", "1")],
            &[("by-path", "*"), ("partition", "2")],
        ] {
            assert_eq!(device(facts, &[]), Err(everything.to_owned()), "{facts:?}");
        }
    }

    #[test]
    fn each_fact_that_is_none_is_named() {
        for (fact, pattern, complaint) in [
            (
                "label",
                "a",
                "label: unknown fact; known are `by-id`, `by-path`, `partition`, `nguid`, `wwid`, `serial`",
            ),
            ("serial", "", "serial: is empty"),
            ("serial", "a*b", "serial: may have a `*` at its end only"),
            ("serial", "a**", "serial: may have a `*` at its end only"),
            (
                "by-id",
                "../*",
                "by-id: must not be `.`, nor contain `/` or `..`",
            ),
            (
                "partition",
                "x*",
                "partition: must be the number of a partition, such as `1`",
            ),
            (
                "by-id",
                "lvm-pv-uuid-*",
                "by-id: comes from what is stored on the device, which is no identity; name a link that identifies the device itself, such as `wwn-..` or `dm-uuid-mpath-..`",
            ),
        ] {
            let refused = Err(format!("devices[0].facts.{complaint}"));
            assert_eq!(device(&[(fact, pattern)], &[]), refused);
        }
        assert_eq!(
            device(&[("serial", "a")], &["discard,suid"]),
            Err(
                "devices[0].mountOptions[0]: must be one option, without comma or space".to_owned()
            )
        );
    }

    fn pool(text: &str) -> Result<PoolGrant, String> {
        let pool: raw::Pool = serde_json::from_str(text).map_err(|error| error.to_string())?;
        pool_grant(&KeyPath::of("pools").key("nas"), pool).map_err(|fault| fault.to_string())
    }

    #[test]
    fn a_pool_is_a_directory_or_what_the_host_mounts() {
        let directory = pool(r#"{"path":"/srv/pool","mountOptions":["suid"]}"#).unwrap();
        assert_eq!(
            directory.directory(),
            Some(std::path::Path::new("/srv/pool"))
        );
        let mounted = pool(
            r#"{"mount":{"type":"nfs4","source":"nas:/export","options":["vers=4.1"]},"fullCopies":true}"#,
        );
        let mount = PoolMount {
            fs_type: "nfs4".to_owned(),
            source: "nas:/export".to_owned(),
            options: vec!["vers=4.1".to_owned()],
        };
        let granted = PoolGrant {
            storage: PoolStorage::Mount(mount),
            full_copies: true,
            mount_options: Vec::new(),
        };
        assert_eq!(mounted, Ok(granted));
    }

    #[test]
    fn grants_that_earlier_hosts_stored_are_read_as_they_are() {
        let stored = r#"{"path":"/srv/pool","full_copies":true,"mount_options":["suid"]}"#;
        let grant: PoolGrant = serde_json::from_str(stored).unwrap();
        assert_eq!(
            grant.storage,
            PoolStorage::Directory(PathBuf::from("/srv/pool"))
        );
        assert_eq!(serde_json::to_string(&grant).unwrap(), stored);
        let mounted = r#"{"mount":{"fs_type":"nfs4","source":"nas:/e","options":[]},"full_copies":false,"mount_options":[]}"#;
        let grant: PoolGrant = serde_json::from_str(mounted).unwrap();
        assert_eq!(grant.mount().map(|it| it.source.as_str()), Some("nas:/e"));
        assert_eq!(serde_json::to_string(&grant).unwrap(), mounted);
    }

    #[test]
    fn a_pool_that_cannot_be_mounted_is_refused_by_its_key() {
        for (text, complaint) in [
            ("{}", "pools.nas: needs `path` or `mount`, and not both"),
            (
                r#"{"path":"/p","mount":{"type":"nfs4","source":"nas:/e"}}"#,
                "pools.nas: needs `path` or `mount`, and not both",
            ),
            (
                r#"{"mount":{"type":"ext4","source":"/dev/sda"}}"#,
                "pools.nas.mount.type: must be nfs4",
            ),
            (
                r#"{"mount":{"type":"nfs4","source":"nas:/*"}}"#,
                "pools.nas.mount.source: must be one source, such as `server:/export`, and no pattern",
            ),
            (
                r#"{"mount":{"type":"nfs4","source":"nas:/e","options":["a,b"]}}"#,
                "pools.nas.mount.options[0]: must be one option, without comma or space",
            ),
            (
                r#"{"mount":{"type":"nfs4","source":"nas:/e"},"mountOptions":["suid"]}"#,
                "pools.nas.mountOptions: no volume is staged from such a pool; grant options in `filesystems`",
            ),
        ] {
            assert_eq!(pool(text), Err(complaint.to_owned()), "{text}");
        }
    }
}
