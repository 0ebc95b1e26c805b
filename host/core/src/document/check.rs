//! Converts the shape on disk into the checked document: every rule that needs neither node nor plugin.

mod attach;
mod grants;
mod network;
mod node_facts;
mod plugin;
mod rollout;
mod sealing;

use super::{
    Grants, InvalidDocument, KeyPath, Limits, Rollout, SecretSource, StorageBackend, VersionPolicy,
    amounts, csi_driver, raw,
};
use crate::capabilities::{Hidden, UnknownCapability};
use crate::names::{DriverName, is_word};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

/// Longest `metadata.name` and other names, in bytes (Kubernetes, DNS subdomain names).
const NAME_BYTES: usize = 253;
/// A page of WebAssembly memory: less cannot be given, in bytes.
const MEMORY_BYTES_MIN: u64 = 64 << 10;
/// All that a 32-bit guest can address, in bytes.
const MEMORY_BYTES_MAX: u64 = 4 << 30;
/// Longest budget of a call: a day. A longer one is probably a mistake, and would hold a volume's claims for that time.
const TIME_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// Most calls, handles or table elements that a limit may allow: the host counts them in 32 bits.
const COUNT_MAX: u64 = i32::MAX as u64;

/// Most versions on disk: 100 of the largest component are 6 GiB.
const KEEP_MAX: u64 = 100;
/// Most faults of a window: the host remembers each of them.
const FAULTS_MAX: u64 = 1000;
/// Longest window. An hour: a version that ran that long without faults is not the cause of later ones.
const WINDOW_MAX: Duration = Duration::from_secs(60 * 60);

type Checked<T> = Result<T, InvalidDocument>;

impl TryFrom<raw::Document> for StorageBackend {
    type Error = InvalidDocument;

    /// Checks everything that can be checked without the node: the form of a path, but not its existence.
    fn try_from(document: raw::Document) -> Checked<Self> {
        let raw::Document {
            api_version,
            kind,
            metadata,
            spec,
        } = document;
        one_of("apiVersion", &api_version, raw::API_VERSION)?;
        one_of("kind", &kind, raw::KIND)?;
        // Labels and annotations belong to Kubernetes; the host does not use them.
        let raw::Metadata {
            name: backend_name,
            labels: _,
            annotations: _,
        } = metadata;
        name(&KeyPath::of("metadata.name"), &backend_name)?;

        let raw::Spec {
            driver_name,
            plugin,
            settings,
            secrets,
            grants,
            limits,
            versions,
            rollout,
            csi,
            csi_driver,
        } = spec;
        let raw::Csi { hide_capabilities } = csi;
        csi_driver::check(&KeyPath::of("spec.csiDriver"), &csi_driver)?;
        let secret_names: BTreeSet<String> = secrets.keys().cloned().collect();
        Ok(Self {
            name: backend_name,
            driver_name: named_driver(&KeyPath::of("spec.driverName"), driver_name)?,
            plugin: plugin::source(&KeyPath::of("spec.plugin"), plugin)?,
            settings: settings.into(),
            secrets: secret_sources(&KeyPath::of("spec.secrets"), secrets)?,
            grants: Grants {
                selinux_mount: csi_driver.selinux_mount == Some(true),
                ..grants::checked(&KeyPath::of("spec.grants"), grants, &secret_names)?
            },
            limits: limited(&KeyPath::of("spec.limits"), limits)?,
            versions: version_policy(&KeyPath::of("spec.versions"), versions)?,
            rollout: rollout.map(Rollout::try_from).transpose()?,
            hidden: hidden(
                &KeyPath::of("spec.csi.hideCapabilities"),
                &hide_capabilities,
            )?,
            csi_driver,
        })
    }
}

fn one_of(key: &str, given: &str, known: &str) -> Checked<()> {
    let reason = format!("this host reads `{known}` only");
    KeyPath::of(key).ensure(given == known, &reason)
}

/// A Kubernetes name: it becomes part of object names, events and log lines.
fn name(key: &KeyPath, name: &str) -> Checked<()> {
    key.ensure(
        is_subdomain(name),
        "must be 1 to 253 lower-case letters, digits, `-` and `.`, with a letter or digit at both ends",
    )
}

/// Whether a text is what Kubernetes calls a DNS subdomain.
fn is_subdomain(name: &str) -> bool {
    is_word(name, NAME_BYTES, "-.") && !name.contains(|c: char| c.is_ascii_uppercase())
}

fn named_driver(key: &KeyPath, name: String) -> Checked<DriverName> {
    DriverName::parse(name).map_err(|invalid| key.invalid(invalid.problem))
}

fn limited(key: &KeyPath, limits: raw::Limits) -> Checked<Limits> {
    let raw::Limits {
        memory,
        time,
        cpu,
        concurrency,
        host_call_bytes,
        table_elements,
        handles,
        state_bytes,
        long_ids,
    } = limits;
    let mut limits = Limits::default();
    if let Some(amount) = memory {
        let key = key.key("memory");
        limits.memory_bytes = bytes(&key, &amount)?;
        key.ensure(
            (MEMORY_BYTES_MIN..=MEMORY_BYTES_MAX).contains(&limits.memory_bytes),
            "must be between 64Ki and 4Gi",
        )?;
    }
    if let Some(text) = time {
        limits.time = duration(&key.key("time"), &text, TIME_MAX, "24h")?;
    }
    if let Some(text) = cpu {
        limits.cpu = duration(&key.key("cpu"), &text, TIME_MAX, "24h")?;
    }
    if let Some(amount) = host_call_bytes {
        let key = key.key("hostCallBytes");
        limits.host_call_bytes = from_one(&key, bytes(&key, &amount)?, COUNT_MAX)?;
    }
    if let Some(amount) = state_bytes {
        limits.state_bytes = bytes(&key.key("stateBytes"), &amount)?;
    }
    for (name, given, limit) in [
        ("concurrency", concurrency, &mut limits.concurrency),
        ("tableElements", table_elements, &mut limits.table_elements),
        ("handles", handles, &mut limits.handles),
    ] {
        if let Some(number) = given {
            *limit = from_one(&key.key(name), number, COUNT_MAX)?;
        }
    }
    limits.long_ids = long_ids.unwrap_or(limits.long_ids);
    Ok(limits)
}

fn hidden(key: &KeyPath, names: &[String]) -> Checked<Hidden> {
    Hidden::parse(names).map_err(|UnknownCapability { name, nearest }| {
        let index = names.iter().position(|each| *each == name);
        key.index(index.unwrap_or_default())
            .invalid(format!("unknown capability; did you mean `{nearest}`?"))
    })
}

fn bytes(key: &KeyPath, amount: &raw::Amount) -> Checked<u64> {
    amounts::quantity(&amount.0).ok_or_else(|| {
        key.invalid("must be whole bytes, such as `67108864`, `64Mi` (1024 x 1024) or `64M`")
    })
}

/// A number from 1 to `most`.
fn from_one<T: TryFrom<u64>>(key: &KeyPath, number: u64, most: u64) -> Checked<T> {
    let reason = format!("must be between 1 and {most}");
    within(key, number, 1..=most, &reason)
}

fn within<T: TryFrom<u64>>(
    key: &KeyPath,
    number: u64,
    allowed: RangeInclusive<u64>,
    reason: &str,
) -> Checked<T> {
    key.ensure(allowed.contains(&number), reason)?;
    T::try_from(number).map_err(|_| key.invalid(reason))
}

/// Bounds a list or a group of keys.
fn few(key: &KeyPath, number: usize) -> Checked<()> {
    let reason = format!("has more than {} entries", raw::PARTS_MAX);
    key.ensure(number <= raw::PARTS_MAX, &reason)
}

fn file_path(key: &KeyPath, path: String) -> Checked<PathBuf> {
    non_empty(key, &path)?;
    Ok(PathBuf::from(path))
}

fn non_empty(key: &KeyPath, text: &str) -> Checked<()> {
    key.ensure(!text.is_empty(), "is empty")?;
    key.ensure(!text.contains('\0'), "contains a NUL byte")
}

/// Text that may end in `*`; returns the part before it.
fn pattern<'p>(key: &KeyPath, pattern: &'p str) -> Checked<Option<&'p str>> {
    let start = pattern.strip_suffix('*');
    key.ensure(
        !start.unwrap_or(pattern).contains('*'),
        "may have a `*` at its end only",
    )?;
    Ok(start)
}

/// Names, each exact or with a `*` at the end.
fn patterns(key: &KeyPath, names: Vec<String>) -> Checked<Vec<String>> {
    key.each(names, |key, name| {
        non_empty(key, &name)?;
        pattern(key, &name)?;
        Ok(name)
    })
}

/// Mount options, one in each string: a comma would add a second one.
fn options(key: &KeyPath, options: Vec<String>) -> Checked<Vec<String>> {
    key.each(options, |key, option| {
        non_empty(key, &option)?;
        key.ensure(
            !option.contains([',', ' ']),
            "must be one option, without comma or space",
        )?;
        Ok(option)
    })
}

/// A name of one of the document's secrets.
fn known_secret(key: &KeyPath, name: &str, secrets: &BTreeSet<String>) -> Checked<()> {
    let reason = format!("names the secret `{name}`, which is not in `spec.secrets`");
    key.ensure(secrets.contains(name), &reason)
}

fn secret_sources(
    key: &KeyPath,
    secrets: BTreeMap<String, raw::Secret>,
) -> Checked<BTreeMap<String, SecretSource>> {
    few(key, secrets.len())?;
    key.each_value(secrets, |key, name, secret| {
        non_empty(key, &name)?;
        Ok((name, secret_source(key, secret)?))
    })
}

fn secret_source(key: &KeyPath, secret: raw::Secret) -> Checked<SecretSource> {
    let raw::Secret { file, secret } = secret;
    match (file, secret) {
        (Some(path), None) => Ok(SecretSource::File(file_path(&key.key("file"), path)?)),
        (None, Some(object)) => {
            let above = key.key("secret");
            let raw::SecretKey {
                namespace,
                name: object_name,
                key,
            } = object;
            name(&above.key("namespace"), &namespace)?;
            name(&above.key("name"), &object_name)?;
            non_empty(&above.key("key"), &key)?;
            Ok(SecretSource::Object {
                namespace,
                name: object_name,
                key,
            })
        }
        _ => Err(key.invalid("must have one of `file` and `secret`; a value is not allowed here")),
    }
}

/// The version policy.
fn version_policy(key: &KeyPath, versions: raw::Versions) -> Checked<VersionPolicy> {
    let raw::Versions {
        keep,
        drain,
        rollback: raw::Rollback { faults, window },
    } = versions;
    let mut policy = VersionPolicy::default();
    if let Some(number) = keep {
        let reason = format!("must be between 1, the serving one alone, and {KEEP_MAX}");
        policy.keep = within(&key.key("keep"), number, 1..=KEEP_MAX, &reason)?;
    }
    if let Some(text) = drain {
        policy.drain = duration(&key.key("drain"), &text, TIME_MAX, "24h")?;
    }
    let key = key.key("rollback");
    if let Some(number) = faults {
        let reason = format!("must be at most {FAULTS_MAX}; 0 never rolls back");
        policy.faults = within(&key.key("faults"), number, 0..=FAULTS_MAX, &reason)?;
    }
    if let Some(text) = window {
        policy.window = duration(&key.key("window"), &text, WINDOW_MAX, "1h")?;
    }
    Ok(policy)
}

fn duration(key: &KeyPath, text: &str, most: Duration, most_text: &str) -> Checked<Duration> {
    amounts::duration(text)
        .filter(|time| !time.is_zero() && *time <= most)
        .ok_or_else(|| {
            key.invalid(format!(
                "must be a duration such as `60s`, longer than 0s and at most {most_text}"
            ))
        })
}
