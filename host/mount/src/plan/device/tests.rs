//! Facts of a plan against grants, without any device.

use super::*;
use proptest::prelude::*;
use wasmount_core::plan::{Plan, Source};
use wasmount_core::volume::{AccessType, MountAccess};

fn pairs(facts: &[(&str, &str)]) -> Vec<(String, String)> {
    let owned = |(fact, value): &(&str, &str)| ((*fact).to_owned(), (*value).to_owned());
    facts.iter().map(owned).collect()
}

/// The check of a step with one alternative.
fn check(
    facts: &[(String, String)],
    wait_ms: u32,
    grants: &Grants,
) -> Result<CheckedDevice, MountError> {
    super::check("device", &[facts.to_vec()], false, wait_ms, grants)
}

fn grant(facts: &[(DeviceFact, &str)], mount_options: &[&str]) -> DeviceGrant {
    let owned = |(fact, pattern): &(DeviceFact, &str)| (*fact, (*pattern).to_owned());
    DeviceGrant {
        facts: facts.iter().map(owned).collect(),
        rescan: false,
        mount_options: mount_options.iter().map(|it| (*it).to_owned()).collect(),
    }
}

fn grants(devices: Vec<DeviceGrant>) -> Grants {
    Grants {
        devices,
        ..Grants::default()
    }
}

fn acme() -> Grants {
    grants(vec![grant(&[(DeviceFact::Serial, "ACME-*")], &[])])
}

fn device(facts: &[(DeviceFact, &str)]) -> DeviceFacts {
    let mut device = DeviceFacts::default();
    for (fact, value) in facts {
        device.insert((*fact, (*value).to_owned()));
    }
    device
}

fn refusal(facts: &[(&str, &str)], grants: &Grants) -> String {
    check(&pairs(facts), 0, grants).unwrap_err().to_string()
}

#[test]
fn a_device_is_asked_for_by_its_facts() {
    let facts = [("serial", "ACME-1"), ("partition", "2")];
    let checked = check(&pairs(&facts), 45_000, &acme()).unwrap();
    assert_eq!(
        checked.alternatives,
        [BTreeMap::from([
            (DeviceFact::Serial, "ACME-1".to_owned()),
            (DeviceFact::Partition, "2".to_owned()),
        ])]
    );
    assert_eq!(checked.wait, Duration::from_secs(45));
    assert_eq!(checked.grants, acme().devices);
}

#[test]
fn a_disk_for_writers_on_several_nodes_is_raw() {
    let disk = Plan {
        source: Source::Device {
            facts: pairs(&[("serial", "ACME-1")]),
            wait_ms: 0,
        },
        default_fs_type: None,
        mount_options: Vec::new(),
        notes: BTreeMap::new(),
        luks: None,
    };
    let check = |access_type: &AccessType, access_mode| {
        let capability = VolumeCapability {
            access_type: access_type.clone(),
            access_mode,
        };
        crate::plan::check(&disk, &capability, false, &acme())
    };
    let mounted = AccessType::Mount(MountAccess::default());
    for (mode, is_accepted) in [
        (AccessMode::SingleNodeWriter, true),
        (AccessMode::SingleNodeMultiWriter, true),
        (AccessMode::MultiNodeReaderOnly, true),
        (AccessMode::MultiNodeSingleWriter, false),
        (AccessMode::MultiNodeMultiWriter, false),
    ] {
        assert!(check(&AccessType::Block, mode).is_ok(), "{mode:?}");
        match check(&mounted, mode) {
            Ok(_) => assert!(is_accepted, "{mode:?}"),
            Err(MountError::Invalid { .. }) => assert!(!is_accepted, "{mode:?}"),
            Err(other) => panic!("{mode:?}: {other}"),
        }
    }
}

#[test]
fn facts_that_tell_no_device_are_refused() {
    let not_valid = |reason: &str| format!("facts of step `device` is not valid: {reason}");
    for (facts, reason) in [
        (&[][..], "they name no device; give one besides `partition`"),
        (
            &[("partition", "1")],
            "they name no device; give one besides `partition`",
        ),
        (
            &[("label", "data")],
            "`label` is unknown; known are `by-id`, `by-path`, `partition`, `nguid`, `wwid`, `serial`",
        ),
        (
            &[("serial", "ACME-1"), ("serial", "ACME-1")],
            "`serial` is given twice",
        ),
        (
            &[("by-id", "../../vda")],
            "`by-id` must not be `.`, nor contain `/` or `..`",
        ),
        (&[("serial", "")], "`serial` is empty"),
    ] {
        assert_eq!(refusal(facts, &acme()), not_valid(reason), "{facts:?}");
    }
}

#[test]
fn a_wait_beyond_the_budget_of_a_call_is_refused() {
    let error = check(&pairs(&[("serial", "ACME-1")]), 45_001, &acme()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "wait-ms of step `device` is not valid: 45001 ms are more than 45000; clients retry, so wait less"
    );
}

#[test]
fn what_no_grant_can_cover_is_refused_before_any_search() {
    for (facts, grants) in [
        (&[("serial", "ACME-1")][..], Grants::default()),
        (&[("serial", "OTHER-1")], acme()),
        (
            &[("serial", "ACME-1"), ("partition", "2")],
            grants(vec![grant(
                &[(DeviceFact::Serial, "ACME-*"), (DeviceFact::Partition, "1")],
                &[],
            )]),
        ),
    ] {
        let error = check(&pairs(facts), 0, &grants).unwrap_err();
        assert!(matches!(error, MountError::NotGranted { .. }), "{error}");
        assert!(error.to_string().contains("`grants.devices`"), "{error}");
    }
}

#[test]
fn what_a_grant_may_cover_is_left_to_the_search() {
    // The device with this link may have the granted serial number, or another link.
    assert!(check(&pairs(&[("by-id", "scsi-1")]), 0, &acme()).is_ok());
    let by_id = grants(vec![grant(&[(DeviceFact::ById, "wwn-*")], &[])]);
    assert!(check(&pairs(&[("by-id", "scsi-1")]), 0, &by_id).is_ok());
}

#[test]
fn each_alternative_needs_a_grant() {
    let serial = |value| pairs(&[("serial", value)]);
    let refused = |alternatives: &[Vec<(String, String)>]| {
        let checked = super::check("any-device", alternatives, false, 0, &acme());
        checked.map_err(|error| error.to_string())
    };
    let both = [serial("ACME-1"), pairs(&[("by-id", "wwn-1")])];
    let checked = refused(&both).unwrap();
    assert_eq!(checked.alternatives.len(), 2);
    assert_eq!(checked.grants, acme().devices);
    assert_eq!(
        refused(&[serial("ACME-1"), serial("OTHER-1")]),
        Err("step `any-device` is not granted: no entry of `grants.devices` of the backend document covers the device with serial `OTHER-1`; add one whose facts all hold for it, such as `{ facts: { .. } }`".to_owned())
    );
    let unknown = refused(&[serial("ACME-1"), pairs(&[("label", "a")])]).unwrap_err();
    assert!(
        unknown.starts_with("facts of step `any-device` is not valid: `label`"),
        "{unknown}"
    );
}

#[test]
fn a_rescan_needs_the_grant_of_the_device() {
    let with_rescan = |start| DeviceGrant {
        rescan: true,
        ..grant(&[(DeviceFact::Serial, start)], &[])
    };
    let asked = [pairs(&[("serial", "ACME-1")])];
    let check = |rescan, grants: &Grants| {
        let checked = super::check("any-device", &asked, rescan, 0, grants);
        checked.map(|device| device.rescan)
    };
    let granted = grants(vec![with_rescan("ACME-*")]);
    assert_eq!(check(true, &granted), Ok(true));
    assert_eq!(check(false, &granted), Ok(false));
    for grants in [
        acme(),
        grants([acme().devices, vec![with_rescan("OTHER-*")]].concat()),
    ] {
        let error = check(true, &grants).unwrap_err();
        assert!(matches!(error, MountError::NotGranted { .. }), "{error}");
        assert!(error.to_string().contains("add `rescan: true`"), "{error}");
    }
}

#[test]
fn a_device_is_covered_when_all_facts_of_one_grant_hold_for_it() {
    let found = device(&[
        (DeviceFact::ById, "scsi-0Acme_1"),
        (DeviceFact::ById, "wwn-0x1"),
        (DeviceFact::Serial, "S1"),
    ]);
    for facts in [
        &[(DeviceFact::ById, "wwn-0x1")][..],
        &[(DeviceFact::ById, "scsi-0Acme_*")],
        &[(DeviceFact::ById, "wwn-*"), (DeviceFact::Serial, "*")],
    ] {
        assert!(is_covered(&[grant(facts, &[])], &found), "{facts:?}");
    }
}

#[test]
fn a_device_with_a_differing_fact_is_not_granted() {
    let found = device(&[
        (DeviceFact::ById, "scsi-0Acme_1"),
        (DeviceFact::Serial, "S1"),
    ]);
    for facts in [
        &[][..],
        &[(DeviceFact::ById, "scsi-0Acme_")],
        &[(DeviceFact::Serial, "scsi-0Acme_1")],
        &[(DeviceFact::ById, "scsi-*"), (DeviceFact::Serial, "S2")],
        &[(DeviceFact::ById, "scsi-*"), (DeviceFact::Wwid, "*")],
    ] {
        assert!(!is_covered(&[grant(facts, &[])], &found), "{facts:?}");
    }
    // Two grants that each cover one half do not cover it either.
    let halves = [
        grant(
            &[(DeviceFact::ById, "scsi-*"), (DeviceFact::Wwid, "a")],
            &[],
        ),
        grant(&[(DeviceFact::Serial, "S2")], &[]),
    ];
    assert!(!is_covered(&halves, &found));
}

fn with_option(device: CheckedDevice, word: &str) -> Result<CheckedDevice, String> {
    let check = |granted: &[String]| match granted.iter().any(|it| it == word) {
        true => Ok(()),
        false => Err(format!("{word} is not granted")),
    };
    device.with_options(check).map(|(device, ())| device)
}

#[test]
fn an_option_is_allowed_only_with_the_grant_that_lists_it() {
    let narrow = grant(&[(DeviceFact::Serial, "ACME-1")], &["suid"]);
    let wide = grant(&[(DeviceFact::ById, "scsi-*")], &["discard"]);
    let both = grants(vec![wide, narrow.clone()]);
    let checked = || check(&pairs(&[("by-id", "scsi-1")]), 0, &both).unwrap();
    assert_eq!(checked().grants.len(), 2);
    assert_eq!(with_option(checked(), "suid").unwrap().grants, [narrow]);
    assert_eq!(
        with_option(checked(), "dev"),
        Err("dev is not granted".to_owned())
    );
}

proptest! {
    #[test]
    fn no_value_that_passes_can_lead_to_another_folder(value in "[./a-z\\x00 -]{0,12}") {
        if let Ok(checked) = check(&pairs(&[("by-id", &value)]), 0, &acme()) {
            let path = std::path::Path::new("/dev/disk/by-id").join(&checked.alternatives[0][&DeviceFact::ById]);
            prop_assert_eq!(path.parent().unwrap(), std::path::Path::new("/dev/disk/by-id"));
            prop_assert_eq!(path.file_name().unwrap(), value.as_str());
        }
    }

    #[test]
    fn a_pattern_covers_just_what_begins_like_it(start in "[a-c]{1,3}", value in "[a-c]{1,4}") {
        let found = device(&[(DeviceFact::Serial, &value)]);
        let open = grant(&[(DeviceFact::Serial, &format!("{start}*"))], &[]);
        let exact = grant(&[(DeviceFact::Serial, &start)], &[]);
        prop_assert_eq!(is_covered(&[open], &found), value.starts_with(&start));
        prop_assert_eq!(is_covered(&[exact], &found), value == start);
    }
}
