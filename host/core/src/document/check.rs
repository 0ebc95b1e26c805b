//! From the shape on disk to the checked words: every rule of a document that needs neither node nor plugin.

mod grants;
mod plugin;
mod secrets;
mod versions;

use super::{Grants, InvalidDocument, KeyPath, Limits, StorageBackend, amounts, csi_driver, raw};
use crate::capabilities::Hidden;
use crate::names::DriverName;
use std::path::PathBuf;
use std::time::Duration;

/// Longest `metadata.name` and other names, in bytes (Kubernetes, DNS subdomain names).
const NAME_BYTES: usize = 253;
/// A page of WebAssembly memory: less cannot be given, in bytes.
const MEMORY_BYTES_MIN: u64 = 64 << 10;
/// All that a 32-bit guest can address, in bytes.
const MEMORY_BYTES_MAX: u64 = 4 << 30;
/// Longest budget of a call: a day. More would be a slip, and would hold a volume's claims as long.
const TIME_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// Most calls, handles or table elements that a limit may allow: what the host keeps 32-bit counts of.
const COUNT_MAX: u64 = i32::MAX as u64;

type Checked<T> = Result<T, InvalidDocument>;

/// The whole document.
pub(super) fn document(document: raw::Document) -> Checked<StorageBackend> {
    let raw::Document {
        api_version,
        kind,
        metadata,
        spec,
    } = document;
    one_of("apiVersion", &api_version, raw::API_VERSION)?;
    one_of("kind", &kind, raw::KIND)?;
    // Labels and annotations are Kubernetes' own; the host has no use for them.
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
        csi,
        csi_driver,
    } = spec;
    let raw::Csi { hide_capabilities } = csi;
    csi_driver::check(&KeyPath::of("spec.csiDriver"), &csi_driver)?;
    Ok(StorageBackend {
        name: backend_name,
        driver_name: named_driver(&KeyPath::of("spec.driverName"), driver_name)?,
        plugin: plugin::source(&KeyPath::of("spec.plugin"), plugin)?,
        settings: settings.into(),
        secrets: secrets::sources(&KeyPath::of("spec.secrets"), secrets)?,
        grants: Grants {
            selinux_mount: csi_driver.selinux_mount == Some(true),
            ..grants::checked(&KeyPath::of("spec.grants"), grants)?
        },
        limits: limited(&KeyPath::of("spec.limits"), limits)?,
        versions: versions::policy(&KeyPath::of("spec.versions"), versions)?,
        hidden: hidden(
            &KeyPath::of("spec.csi.hideCapabilities"),
            &hide_capabilities,
        )?,
        csi_driver,
    })
}

fn one_of(key: &str, given: &str, known: &str) -> Checked<()> {
    if given == known {
        return Ok(());
    }
    Err(KeyPath::of(key).invalid(format!("this host reads `{known}` only")))
}

/// A Kubernetes name: it becomes part of object names, events and log lines.
fn name(key: &KeyPath, name: &str) -> Checked<()> {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
    let end = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    let right = name.len() <= NAME_BYTES
        && name.chars().all(allowed)
        && end(name.chars().next())
        && end(name.chars().last());
    if right {
        return Ok(());
    }
    Err(key.invalid(
        "must be 1 to 253 lower-case letters, digits, `-` and `.`, with a letter or digit at both ends",
    ))
}

fn named_driver(key: &KeyPath, name: String) -> Checked<DriverName> {
    DriverName::parse(name).map_err(|invalid| {
        // The word's own message begins with its name, which the key says already.
        let message = invalid.to_string();
        let reason = message.strip_prefix("driverName ").unwrap_or(&message);
        key.invalid(reason)
    })
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
        if !(MEMORY_BYTES_MIN..=MEMORY_BYTES_MAX).contains(&limits.memory_bytes) {
            return Err(key.invalid("must be between 64Ki and 4Gi"));
        }
    }
    if let Some(text) = time {
        limits.time = time_limit(&key.key("time"), &text)?;
    }
    if let Some(text) = cpu {
        limits.cpu = time_limit(&key.key("cpu"), &text)?;
    }
    if let Some(amount) = host_call_bytes {
        let key = key.key("hostCallBytes");
        limits.host_call_bytes = count(&key, bytes(&key, &amount)?)?;
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
            *limit = count(&key.key(name), number)?;
        }
    }
    limits.long_ids = long_ids.unwrap_or(limits.long_ids);
    Ok(limits)
}

fn hidden(key: &KeyPath, names: &[String]) -> Checked<Hidden> {
    for (index, name) in names.iter().enumerate() {
        // One at a time: the error then has its place.
        Hidden::parse([name]).map_err(|unknown| {
            key.index(index).invalid(format!(
                "unknown capability; did you mean `{}`?",
                unknown.nearest
            ))
        })?;
    }
    Hidden::parse(names).map_err(|unknown| key.invalid(unknown.to_string()))
}

fn time_limit(key: &KeyPath, text: &str) -> Checked<Duration> {
    let time = amounts::duration(text)
        .ok_or_else(|| key.invalid("must be a duration such as `60s` or `1m30s`"))?;
    if time.is_zero() || time > TIME_MAX {
        return Err(key.invalid("must be longer than nothing and at most 24h"));
    }
    Ok(time)
}

fn bytes(key: &KeyPath, amount: &raw::Amount) -> Checked<u64> {
    amounts::quantity(&amount.0).ok_or_else(|| {
        key.invalid("must be whole bytes, such as `67108864`, `64Mi` (1024 x 1024) or `64M`")
    })
}

fn count(key: &KeyPath, number: u64) -> Checked<usize> {
    usize::try_from(number)
        .ok()
        .filter(|_| (1..=COUNT_MAX).contains(&number))
        .ok_or_else(|| key.invalid(format!("must be between 1 and {COUNT_MAX}")))
}

/// Bounds a list or a group of keys.
fn few(key: &KeyPath, number: usize) -> Checked<()> {
    if number > raw::PARTS_MAX {
        return Err(key.invalid(format!("has more than {} entries", raw::PARTS_MAX)));
    }
    Ok(())
}

fn file_path(key: &KeyPath, path: String) -> Checked<PathBuf> {
    non_empty(key, &path)?;
    Ok(PathBuf::from(path))
}

fn non_empty(key: &KeyPath, text: &str) -> Checked<()> {
    if text.is_empty() {
        return Err(key.invalid("is empty"));
    }
    if text.contains('\0') {
        return Err(key.invalid("contains a NUL byte"));
    }
    Ok(())
}
