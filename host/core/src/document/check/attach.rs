//! The disks that a document lets the mounter attach.

use super::{Checked, few, options, patterns};
use crate::document::{AttachGrant, AttachProtocol, KeyPath, Portals, raw};
use std::mem;

/// An entry of `attach`. The keys of addresses and names follow from the protocol.
pub(super) fn attach_grant(key: &KeyPath, attach: raw::Attach) -> Checked<AttachGrant> {
    let raw::Attach {
        protocol,
        portals,
        targets,
        addresses,
        subsystems,
        monitors,
        pools,
        mount_options,
    } = attach;
    let named = AttachProtocol::parse(&protocol);
    let protocol = named.ok_or_else(|| {
        let names = AttachProtocol::names();
        let problem = format!("unknown protocol; known are {names}");
        key.key("protocol").invalid(problem)
    })?;
    let (mut iscsi, mut nvme, mut rbd) = (
        (portals, targets),
        (addresses, subsystems),
        (monitors, pools),
    );
    let (used, example) = match protocol {
        AttachProtocol::Iscsi => (&mut iscsi, "targets, such as `iqn.2010-06.com.acme:*`"),
        AttachProtocol::NvmeTcp => (&mut nvme, "subsystems, such as `nqn.2010-06.com.acme:*`"),
        AttachProtocol::Rbd => (
            &mut rbd,
            "pools, such as `kubernetes`, or `kubernetes/*` for its namespaces",
        ),
    };
    let (portals, targets) = mem::take(used);
    let [portals_key, targets_key] = protocol.keys();
    let others = [iscsi, nvme, rbd];
    key.ensure(
        others
            .iter()
            .all(|(places, names)| places.is_empty() && names.is_empty()),
        &format!(
            "of `{}` it has `{portals_key}` and `{targets_key}` alone",
            protocol.name()
        ),
    )?;
    let (portals_key, targets_key) = (key.key(portals_key), key.key(targets_key));
    portals_key.ensure(
        !portals.is_empty(),
        "grants nothing; name addresses with a port, such as `10.1.1.0/24:3260`",
    )?;
    targets_key.ensure(
        !targets.is_empty(),
        &format!("grants nothing; name {example}"),
    )?;
    few(&portals_key, portals.len())?;
    few(&targets_key, targets.len())?;
    Ok(AttachGrant {
        protocol,
        portals: portals_key.each(portals, |key, text| {
            let problem = "must be an address or a range with a port, such as `10.1.1.0/24:3260`";
            Portals::parse(&text).ok_or_else(|| key.invalid(problem))
        })?,
        targets: patterns(&targets_key, targets)?,
        mount_options: options(&key.key("mountOptions"), mount_options)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn granted(json: &str) -> Result<AttachGrant, String> {
        let attach: raw::Attach = serde_json::from_str(json).unwrap();
        attach_grant(&KeyPath::of("attach").index(0), attach).map_err(|fault| fault.to_string())
    }

    #[test]
    fn disks_are_granted_by_protocol_portals_and_targets() {
        let iscsi = granted(
            r#"{"protocol":"iscsi","portals":["10.1.1.0/24:3260"],"targets":["iqn.2010-06.com.acme:*"],"mountOptions":["discard"]}"#,
        );
        assert_eq!(
            iscsi,
            Ok(AttachGrant {
                protocol: AttachProtocol::Iscsi,
                portals: vec![Portals::parse("10.1.1.0/24:3260").unwrap()],
                targets: vec!["iqn.2010-06.com.acme:*".to_owned()],
                mount_options: vec!["discard".to_owned()],
            })
        );
        let nvme = granted(
            r#"{"protocol":"nvme-tcp","addresses":["[fd00::1]:4420"],"subsystems":["nqn.2026-01.example:a"]}"#,
        );
        assert_eq!(nvme.unwrap().protocol, AttachProtocol::NvmeTcp);
        let rbd = granted(
            r#"{"protocol":"rbd","monitors":["10.1.3.0/24:6789"],"pools":["kubernetes","shared/*"]}"#,
        );
        assert_eq!(rbd.unwrap().targets, ["kubernetes", "shared/*"]);
    }

    #[test]
    fn an_entry_that_grants_nothing_or_too_much_is_refused() {
        for (json, refused) in [
            (
                r#"{"protocol":"fc"}"#,
                "attach[0].protocol: unknown protocol; known are `iscsi`, `nvme-tcp`, `rbd`",
            ),
            (
                r#"{"protocol":"iscsi","targets":["iqn.a"]}"#,
                "attach[0].portals: grants nothing; name addresses with a port, such as `10.1.1.0/24:3260`",
            ),
            (
                r#"{"protocol":"nvme-tcp","addresses":["10.1.1.1:4420"]}"#,
                "attach[0].subsystems: grants nothing; name subsystems, such as `nqn.2010-06.com.acme:*`",
            ),
            (
                r#"{"protocol":"rbd","monitors":["10.1.3.1:6789"]}"#,
                "attach[0].pools: grants nothing; name pools, such as `kubernetes`, or `kubernetes/*` for its namespaces",
            ),
            (
                r#"{"protocol":"rbd","monitors":["10.1.3.1:6789"],"pools":["a"],"portals":["10.1.1.1:3260"]}"#,
                "attach[0]: of `rbd` it has `monitors` and `pools` alone",
            ),
            (
                r#"{"protocol":"iscsi","portals":["array:3260"],"targets":["iqn.a"]}"#,
                "attach[0].portals[0]: must be an address or a range with a port, such as `10.1.1.0/24:3260`",
            ),
            (
                r#"{"protocol":"iscsi","portals":["10.1.1.1:3260"],"targets":["iqn.*.a"]}"#,
                "attach[0].targets[0]: may have a `*` at its end only",
            ),
            (
                r#"{"protocol":"iscsi","portals":["10.1.1.1:3260"],"targets":["iqn.a"],"subsystems":["nqn.a"]}"#,
                "attach[0]: of `iscsi` it has `portals` and `targets` alone",
            ),
        ] {
            assert_eq!(granted(json), Err(refused.to_owned()), "{json}");
        }
    }
}
