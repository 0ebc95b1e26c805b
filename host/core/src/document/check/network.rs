//! The network grants of a document.

mod auth;

use super::{Checked, TIME_MAX, bytes, duration, few, from_one, known_secret, non_empty};
use crate::document::network::{
    Auth, ClientIdentity, Host, HostName, MAX_BODY_BYTES, NetworkGrant, Rate, RateLimit, Scheme,
    ServiceName, Timeouts, Tls, is_dns_name,
};
use crate::document::plugin_source::is_sha256;
use crate::document::{KeyPath, raw};
use ipnet::IpNet;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// Most hosts or ranges of an entry: controllers of one array, not a site.
const HOSTS_MAX: usize = 16;
/// Longest name of an entry: a label of the DNS, since it stands in the place of one.
const NAME_BYTES: usize = 63;
/// Body of a request or an answer unless the document says otherwise. 4 MiB: a list of some thousand volumes in JSON.
const BODY_BYTES: u64 = 4 << 20;
/// Requests at a time unless the document says otherwise.
const IN_FLIGHT: usize = 8;
/// All methods that a plugin can use.
const METHODS: [&str; 6] = ["DELETE", "GET", "HEAD", "PATCH", "POST", "PUT"];

/// All entries; `secrets` are the names of the document's secrets.
pub(super) fn checked(
    key: &KeyPath,
    endpoints: BTreeMap<String, raw::Endpoint>,
    secrets: &BTreeSet<String>,
) -> Checked<BTreeMap<String, NetworkGrant>> {
    few(key, endpoints.len())?;
    let grants = key.each_value(endpoints, |key, name, endpoint| {
        let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        key.ensure(
            (1..=NAME_BYTES).contains(&name.len()) && name.chars().all(allowed),
            "must be named by 1 to 63 lower-case letters, digits and `-`",
        )?;
        let grant = endpoint_grant(key, endpoint)?;
        for secret in grant.secret_names() {
            known_secret(key, secret, secrets)?;
        }
        Ok((name, grant))
    })?;
    for (name, grant) in &grants {
        if let Auth::SessionOf(other) = &grant.auth {
            let has_session = |grant: &NetworkGrant| matches!(grant.auth, Auth::Session(_));
            key.key(name).key("auth").key("sessionOf").ensure(
                grants.get(other).is_some_and(has_session),
                "must be the name of an entry with `auth.session`",
            )?;
        }
    }
    Ok(grants)
}

fn endpoint_grant(key: &KeyPath, endpoint: raw::Endpoint) -> Checked<NetworkGrant> {
    let raw::Endpoint {
        hosts,
        host_from,
        addresses,
        scheme,
        services,
        methods,
        paths,
        tls,
        proxy,
        protocol,
        timeouts,
        rate,
        max_body,
        auth,
    } = endpoint;
    let hosts_key = key.key("hosts");
    hosts_key.ensure(
        (1..=HOSTS_MAX).contains(&hosts.len()),
        "must name 1 to 16 hosts",
    )?;
    let hosts = hosts_key.each(hosts, |key, text| {
        let host = Host::parse(&text, scheme)
            .ok_or_else(|| key.invalid("must be a host, such as `array.example.com:443`"))?;
        let is_pattern = matches!(host.name, HostName::Range(_) | HostName::Suffix(_));
        key.ensure(
            !is_pattern || host_from.is_some(),
            "is a pattern, which needs `hostFrom`",
        )?;
        Ok(host)
    })?;
    let ranges_key = key.key("addresses");
    ranges_key.ensure(addresses.len() <= HOSTS_MAX, "has more than 16 entries")?;
    let addresses = ranges_key.each(addresses, |key, text| {
        range(&text).ok_or_else(|| key.invalid("must be a range, such as `10.1.0.0/16`"))
    })?;
    let methods_key = key.key("methods");
    let methods: BTreeSet<String> = methods_key.each(methods, known_method)?;
    let paths_key = key.key("paths");
    few(&paths_key, paths.len())?;
    let paths: Vec<String> = paths_key.each(paths, |key, path| {
        key.ensure(
            path.starts_with('/') && !path.contains(['?', '#', '%', ' ']),
            "must be a path, such as `/api/`",
        )?;
        Ok(path)
    })?;
    let proxy_key = key.key("proxy");
    if let Some(url) = &proxy {
        let rest = url
            .strip_prefix("http://")
            .or_else(|| url.strip_prefix("https://"));
        proxy_key.ensure(
            rest.is_some_and(|rest| !rest.is_empty() && !rest.contains(['/', '@', '?'])),
            "must be a URL without path and credentials, such as `http://proxy.example.com:3128`",
        )?;
    }
    let max_key = key.key("maxBody");
    let max_body_bytes = match max_body {
        Some(amount) => bytes(&max_key, &amount)?,
        None => BODY_BYTES,
    };
    max_key.ensure(
        (1..=MAX_BODY_BYTES).contains(&max_body_bytes),
        "must be between 1 byte and 32Mi",
    )?;
    let auth_key = key.key("auth");
    let auth = match auth {
        Some(auth) => auth::credentials(&auth_key, auth)?,
        None => Auth::None,
    };
    let host_from = host_from.map(|raw::HostFrom { request_secret }| request_secret);
    if let Some(secret) = &host_from {
        non_empty(&key.key("hostFrom").key("requestSecret"), secret)?;
        auth_key.ensure(
            !matches!(auth, Auth::Session(_) | Auth::SessionOf(_)),
            "cannot hold a session where requests name the host; the plugin logs in by the interface `session`",
        )?;
    }
    let services: BTreeSet<ServiceName> = services.into_iter().collect();
    Ok(NetworkGrant {
        hosts,
        host_from,
        addresses,
        scheme,
        services: match services.is_empty() {
            true => [ServiceName::Controller].into(),
            false => services,
        },
        methods: match methods.is_empty() {
            true => METHODS.map(str::to_owned).into(),
            false => methods,
        },
        paths: match paths.is_empty() {
            true => vec!["/".to_owned()],
            false => paths,
        },
        tls: tls_rules(&key.key("tls"), tls, scheme)?,
        proxy,
        protocol,
        timeouts: times(&key.key("timeouts"), timeouts)?,
        rate: rate_limits(&key.key("rate"), &rate)?,
        max_body_bytes,
        auth,
    })
}

fn known_method(key: &KeyPath, method: String) -> Checked<String> {
    let reason = format!("must be one of {}", METHODS.join(", "));
    key.ensure(METHODS.contains(&method.as_str()), &reason)?;
    Ok(method)
}

/// A range, or one address.
fn range(text: &str) -> Option<IpNet> {
    text.parse()
        .ok()
        .or_else(|| Some(IpNet::from(text.parse::<IpAddr>().ok()?)))
}

fn tls_rules(key: &KeyPath, tls: raw::Tls, scheme: Scheme) -> Checked<Tls> {
    let is_used = scheme == Scheme::Https;
    let raw::Tls {
        ca,
        server_name,
        client_certificate,
        client_key,
        pin_sha256,
        skip_verify,
    } = tls;
    let client = match (client_certificate, client_key) {
        (Some(certificate), Some(key)) => Some(ClientIdentity { certificate, key }),
        (None, None) => None,
        _ => return Err(key.invalid("needs both of `clientCertificate` and `clientKey`")),
    };
    if let Some(name) = &server_name {
        key.key("serverName").ensure(
            is_dns_name(&name.to_ascii_lowercase()),
            "must be a name of the DNS",
        )?;
    }
    let pins_key = key.key("pinSha256");
    let pins = pins_key.each(pin_sha256, |key, pin| {
        let reason = "must be 64 lower-case hexadecimal digits";
        key.ensure(is_sha256(&pin), reason)?;
        Ok(pin)
    })?;
    let tls = Tls {
        ca,
        server_name,
        client,
        pins,
        skip_verify,
    };
    key.ensure(
        is_used || tls == Tls::default(),
        "has no effect with `scheme: http`; remove it",
    )?;
    Ok(tls)
}

fn times(key: &KeyPath, times: raw::Timeouts) -> Checked<Timeouts> {
    let raw::Timeouts {
        connect,
        first_byte,
        total,
        idle,
    } = times;
    let mut checked = Timeouts::default();
    for (name, given, time) in [
        ("connect", connect, &mut checked.connect),
        ("firstByte", first_byte, &mut checked.first_byte),
        ("total", total, &mut checked.total),
        ("idle", idle, &mut checked.idle),
    ] {
        if let Some(text) = given {
            *time = duration(&key.key(name), &text, TIME_MAX, "24h")?;
        }
    }
    Ok(checked)
}

fn rate_limits(key: &KeyPath, rate: &raw::Rate) -> Checked<Rate> {
    let raw::Rate {
        per_second,
        burst,
        in_flight,
    } = *rate;
    let rate_of = |name: &str, number: u64| from_one::<u32>(&key.key(name), number, 100_000);
    let limit = match per_second {
        Some(number) => {
            let per_second = rate_of("perSecond", number)?;
            let burst = burst.map(|burst| rate_of("burst", burst)).transpose()?;
            Some(RateLimit {
                per_second,
                burst: burst.unwrap_or(per_second),
            })
        }
        None => {
            key.key("burst")
                .ensure(burst.is_none(), "needs `perSecond`")?;
            None
        }
    };
    let in_flight = in_flight.map(|number| from_one(&key.key("inFlight"), number, 1024));
    Ok(Rate {
        limit,
        in_flight: in_flight.transpose()?.unwrap_or(IN_FLIGHT),
    })
}

#[cfg(test)]
mod tests;
