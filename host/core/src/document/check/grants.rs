//! The grants of a document: pools, file systems and devices that a plugin may use.

use super::{Checked, bytes, few, file_path, non_empty};
use crate::device_fact::DeviceFact;
use crate::document::{DeviceGrant, FilesystemGrant, Grants, KeyPath, PoolGrant, raw};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Component;

/// All grants of a document.
pub(super) fn checked(key: &KeyPath, grants: raw::Grants) -> Checked<Grants> {
    let raw::Grants {
        pools,
        filesystems,
        devices,
    } = grants;
    let pools_key = key.key("pools");
    few(&pools_key, pools.len())?;
    let pools = pools
        .into_iter()
        .map(|(name, pool)| {
            let key = pools_key.key(&name);
            non_empty(&key, &name)?;
            Ok((name, pool_grant(&key, pool)?))
        })
        .collect::<Checked<_>>()?;
    let list_key = key.key("filesystems");
    few(&list_key, filesystems.len())?;
    let mut types = BTreeSet::new();
    let filesystems = filesystems
        .into_iter()
        .enumerate()
        .map(|(index, filesystem)| {
            let key = list_key.index(index);
            let grant = filesystem_grant(&key, filesystem)?;
            if !types.insert(grant.fs_type.clone()) {
                return Err(key.key("type").invalid(format!(
                    "`{}` stands in the list twice; join the two",
                    grant.fs_type
                )));
            }
            Ok(grant)
        })
        .collect::<Checked<_>>()?;
    let list_key = key.key("devices");
    few(&list_key, devices.len())?;
    let devices = devices
        .into_iter()
        .enumerate()
        .map(|(index, device)| device_grant(&list_key.index(index), device))
        .collect::<Checked<_>>()?;
    Ok(Grants {
        pools,
        filesystems,
        devices,
        ..Grants::default()
    })
}

fn pool_grant(key: &KeyPath, pool: raw::Pool) -> Checked<PoolGrant> {
    let raw::Pool {
        path,
        full_copies,
        mount_options,
    } = pool;
    let path_key = key.key("path");
    let path = file_path(&path_key, path)?;
    if path.components().any(|part| part == Component::ParentDir) {
        return Err(path_key.invalid("must not contain `..`"));
    }
    // The host's own folder would come beside the node's, or the data directory into a plugin's reach.
    let is_name = |part: Component<'_>| matches!(part, Component::Normal(_));
    if !path.components().any(is_name) {
        return Err(path_key.invalid("must be a directory for the pool alone"));
    }
    Ok(PoolGrant {
        path,
        full_copies,
        mount_options: options(&key.key("mountOptions"), mount_options)?,
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
    if in_memory && !sources.is_empty() {
        return Err(sources_key.invalid("a tmpfs has no source; take `sources` away"));
    }
    if !in_memory && sources.is_empty() {
        return Err(sources_key.invalid("grants nothing; name sources, such as `server:/export/*`"));
    }
    if !in_memory && max_bytes.is_some() {
        return Err(max_key.invalid("only a tmpfs can be bounded by the host"));
    }
    for (index, source) in sources.iter().enumerate() {
        let key = sources_key.index(index);
        non_empty(&key, source)?;
        if source.strip_suffix('*').unwrap_or(source).contains('*') {
            return Err(key.invalid("may have a `*` at its end only"));
        }
    }
    Ok(FilesystemGrant {
        fs_type,
        sources,
        mount_options: options(&key.key("mountOptions"), mount_options)?,
        max_bytes: max_bytes
            .map(|amount| bytes(&max_key, &amount))
            .transpose()?,
    })
}

/// At least one fact must tell devices apart: anything else would hand out every disk of the node, that of the system among them.
fn device_grant(key: &KeyPath, device: raw::Device) -> Checked<DeviceGrant> {
    let raw::Device {
        facts,
        mount_options,
    } = device;
    let facts_key = key.key("facts");
    let facts: BTreeMap<DeviceFact, String> = facts
        .into_iter()
        .map(|(name, pattern)| {
            let key = facts_key.key(&name);
            let fact = DeviceFact::parse(&name).ok_or_else(|| {
                key.invalid(format!("unknown fact; known are {}", DeviceFact::names()))
            })?;
            fact_pattern(&key, fact, &pattern)?;
            Ok((fact, pattern))
        })
        .collect::<Checked<_>>()?;
    let tells_apart =
        |(fact, pattern): (&DeviceFact, &String)| *fact != DeviceFact::Partition && pattern != "*";
    if !facts.iter().any(tells_apart) {
        return Err(facts_key.invalid(
            "would grant disks of every kind; name a fact other than `partition` with more than `*`, such as `by-id: \"scsi-0Acme_*\"`",
        ));
    }
    Ok(DeviceGrant {
        facts,
        mount_options: options(&key.key("mountOptions"), mount_options)?,
    })
}

fn fact_pattern(key: &KeyPath, fact: DeviceFact, pattern: &str) -> Checked<()> {
    if pattern.strip_suffix('*').unwrap_or(pattern).contains('*') {
        return Err(key.invalid("may have a `*` at its end only"));
    }
    let checked = match pattern.strip_suffix('*') {
        Some(start) => fact.check_start(start),
        None => fact.check_value(pattern),
    };
    checked.map_err(|fault| key.invalid(fault.to_string()))
}

/// Mount options, one each: a comma would smuggle in a second one.
fn options(key: &KeyPath, options: Vec<String>) -> Checked<Vec<String>> {
    for (index, option) in options.iter().enumerate() {
        let key = key.index(index);
        non_empty(&key, option)?;
        if option.contains([',', ' ']) {
            return Err(key.invalid("must be one option, without comma or space"));
        }
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(facts: &[(&str, &str)], mount_options: &[&str]) -> Result<DeviceGrant, String> {
        let owned = |word: &&str| (*word).to_owned();
        let device = raw::Device {
            facts: facts
                .iter()
                .map(|(fact, pattern)| (owned(fact), owned(pattern)))
                .collect(),
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
                "label: unknown fact; known are `by-id`, `by-path`, `serial`, `wwid`, `nguid`, `partition`",
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
                "by-id: comes from what is stored on the device, which is no identity; name a link that tells the device itself, such as `wwn-..` or `dm-uuid-mpath-..`",
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
}
