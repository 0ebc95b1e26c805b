//! Tests of the protocol with hand-made bytes: a message of one side can be read by the other, and nothing else is accepted.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;
use wasmount_core::health::{Health, HealthStatus};
use wasmount_core::mounter::{HealthQuery, MounterRequest, PublishVolume, Staged, VolumeKey};
use wasmount_core::names::{DriverName, NodePath, VolumeId};
use wasmount_core::node_fact::{FactValues, Instance, NodeFact};
use wasmount_core::plan::attached::SecretScope;
use wasmount_core::plan::{Luks, Plan, PlanFile, Source};
use wasmount_core::pool::{Extents, PoolCall, PoolReply};
use wasmount_core::secrets::SecretOptions;
use wasmount_core::snapshot::Extent;
use wasmount_core::volume::{AccessMode, AccessType, MountAccess, VolumeCapability};

fn key() -> VolumeKey {
    VolumeKey {
        driver: DriverName::parse("directory.test").unwrap(),
        volume: VolumeId::parse("volume_id", "v").unwrap(),
    }
}

fn path(path: &str) -> NodePath {
    NodePath::parse("path", path).unwrap()
}

fn capability() -> VolumeCapability {
    VolumeCapability {
        access_type: AccessType::Mount(MountAccess {
            fs_type: Some("ext4".to_owned()),
            mount_flags: vec!["noatime".to_owned()],
            volume_mount_group: Some("7".to_owned()),
        }),
        access_mode: AccessMode::Other(99),
    }
}

fn plan(content: usize) -> Plan {
    Plan {
        source: Source::Files {
            files: vec![PlanFile {
                path: "token".to_owned(),
                mode: 0o400,
                content: vec![7; content],
            }],
        },
        default_fs_type: None,
        mount_options: Vec::new(),
        notes: BTreeMap::from([("portal".to_owned(), "a".to_owned())]),
        luks: None,
    }
}

fn encrypted_plan() -> Plan {
    Plan {
        source: Source::Image {
            pool: "data".to_owned(),
            path: "a".to_owned(),
        },
        luks: Some(Luks::of(SecretScope::Backend, "k")),
        ..plan(0)
    }
}

fn publish(plan: Plan) -> MounterRequest {
    MounterRequest::Publish(PublishVolume {
        key: key(),
        staging_path: None,
        target_path: path("/pods/r/mount"),
        capability: capability(),
        readonly: true,
        plan: Some(plan),
        secret_options: SecretOptions::from_iter([("password".to_owned(), "hunter22".to_owned())]),
    })
}

fn query() -> HealthQuery {
    HealthQuery {
        key: key(),
        publish_path: Some(path("/pods/r/mount")),
        staging_path: None,
    }
}

fn finding(status: HealthStatus) -> Health {
    Health {
        status,
        reason: "R".to_owned(),
        message: "m".to_owned(),
    }
}

fn changed_extents() -> MounterRequest {
    let call = PoolCall::ChangedExtents {
        pool: "data".to_owned(),
        base: "a".to_owned(),
        target: "b".to_owned(),
        offset: 4096,
        limit: 7,
    };
    MounterRequest::Pool(key().driver, call)
}

fn extents() -> MounterResponse {
    let ranges = vec![Extent {
        offset_bytes: 4096,
        size_bytes: 1 << 40,
    }];
    MounterResponse::Pool(PoolReply::Extents(Extents {
        ranges,
        next_offset: Some(u64::MAX),
    }))
}

fn instance() -> MounterResponse {
    let json = br#"{"uuid":"a","availability_zone":"b"}"#;
    MounterResponse::Instance(Instance::of_meta_data(json).unwrap())
}

fn done(response: MounterResponse) -> Reply {
    (Ok(response), Vec::new())
}

fn step() -> Step {
    Step {
        name: "program".to_owned(),
        attributes: vec![("program".to_owned(), "e".to_owned())],
        parent: Some(3),
        begin: Duration::from_micros(7),
        duration: Some(Duration::from_secs(2)),
    }
}

#[test]
fn a_request_is_read_as_it_was_written() {
    let plans = [0, 10, 1 << 20].map(plan);
    for plan in plans.into_iter().chain([encrypted_plan()]) {
        let request = publish(plan);
        let message = encode(&request).unwrap();
        let read: MounterRequest = decode(&message).unwrap();
        assert!(read == request);
    }
}

#[test]
fn what_crosses_is_the_same_as_ever_in_this_version() {
    let hex = |message: Message| message.iter().map(|byte| format!("{byte:02x}")).collect();
    let request: String = hex(encode(&(true, publish(plan(2)))).unwrap());
    let encrypted: String = hex(encode(&publish(encrypted_plan())).unwrap());
    let refused: Reply = (Err(MountError::kernel("mount", "/a", 5, "e")), vec![step()]);
    let reply: String = hex(encode(&refused).unwrap());
    let asked: String = hex(encode(&MounterRequest::Health(query())).unwrap());
    let found = MounterResponse::Health(vec![finding(HealthStatus::Other(300))]);
    let found: String = hex(encode(&done(found)).unwrap());
    let asked_extents: String = hex(encode(&changed_extents()).unwrap());
    let told: String = hex(encode(&done(extents())).unwrap());
    // If this fails, the format of a type that is sent has changed: add one to `VERSION`, and update the bytes here.
    assert_eq!(
        (
            VERSION,
            request.as_str(),
            encrypted.as_str(),
            reply.as_str()
        ),
        (
            15,
            "01040e6469726563746f72792e746573740176000d2f706f64732f722f6d6f756e740101046578743401076e6f6174696d6501\
             013707630101080105746f6b656e800202070700000106706f7274616c016100010870617373776f72640868756e7465723232",
            "040e6469726563746f72792e746573740176000d2f706f64732f722f6d6f756e740101046578743401076e6f6174696d6501\
             0137076301010104646174610161000001\
             06706f7274616c01610101016b010870617373776f72640868756e7465723232",
            "01120a156d6f756e74206f6e202f61206661696c65643a2065\
             010770726f6772616d010770726f6772616d0165010300d836010200"
        )
    );
    assert_eq!(
        (
            asked.as_str(),
            found.as_str(),
            asked_extents.as_str(),
            told.as_str()
        ),
        (
            "070e6469726563746f72792e746573740176010d2f706f64732f722f6d6f756e7400",
            "00040103ac020152016d00",
            "0c0e6469726563746f72792e746573740c046461746101610162802007",
            "00080501802080808080802001ffffffffffffffffff0100"
        )
    );
    let asked: String = hex(encode(&MounterRequest::ConfigDrive(key().driver)).unwrap());
    let told: String = hex(encode(&done(instance())).unwrap());
    assert_eq!(
        (asked.as_str(), told.as_str()),
        ("0e0e6469726563746f72792e74657374", "000a016101016200")
    );
    let asked = MounterRequest::NodeFact(key().driver, NodeFact::Iqn);
    let asked: String = hex(encode(&asked).unwrap());
    let told = FactValues::try_from(vec!["iqn.a".to_owned()]).unwrap();
    let told: String = hex(encode(&done(MounterResponse::FactValues(told))).unwrap());
    assert_eq!(
        (asked.as_str(), told.as_str()),
        ("0f0e6469726563746f72792e7465737402", "000b010569716e2e6100")
    );
}

#[test]
fn a_reply_is_read_as_it_was_written() {
    let errors = [
        MountError::under_way("it"),
        MountError::kernel("mount", "/a", 5, "input/output error"),
    ];
    let volumes = vec![VolumeId::parse("volume_id", "v").unwrap()];
    let answers = [
        MounterResponse::Done,
        MounterResponse::Staged(Staged::AsWanted),
        MounterResponse::Expanded(u64::MAX),
        MounterResponse::Unsettled(volumes),
        MounterResponse::Health(Vec::new()),
        MounterResponse::Health(
            [
                HealthStatus::Degraded,
                HealthStatus::Inaccessible,
                HealthStatus::DataLoss,
                HealthStatus::Other(u32::MAX),
            ]
            .map(finding)
            .to_vec(),
        ),
        extents(),
        instance(),
    ];
    let replies = answers.map(Ok).into_iter().chain(errors.map(Err));
    for reply in replies {
        let reply: Reply = (reply, vec![step()]);
        let message = encode(&reply).unwrap();
        assert!(decode::<Reply>(&message).unwrap() == reply);
    }
}

/// `Notes` with any strings: the variant's number and the fields, as postcard writes them.
fn hand_made(driver: &str, volume: &str) -> Vec<u8> {
    postcard::to_stdvec(&(2u8, driver, volume)).unwrap()
}

#[test]
fn deserialising_validates_every_string() {
    let read = |driver: &str, volume: &str| decode::<MounterRequest>(&hand_made(driver, volume));
    let wanted = MounterRequest::Notes(key());
    assert!(read("directory.test", "v") == Ok(wanted));
    for (driver, volume) in [
        ("", "v"),
        ("..", "v"),
        ("../../etc", "v"),
        ("a/b", "v"),
        ("directory.test", ""),
        ("directory.test", "a\0b"),
        ("directory.test", &"v".repeat(1025)),
    ] {
        assert!(read(driver, volume) == Err(Violation::Unreadable));
    }
    // A path is passed on unchanged, for the mounter to reject; bytes that are not a path at all cannot be read.
    let unstage = |path: &str| {
        let bytes = postcard::to_stdvec(&(3u8, "directory.test", "v", path)).unwrap();
        decode::<MounterRequest>(&bytes)
    };
    assert!(unstage("/pods/../etc").is_ok());
    for path in ["", "/a\0b", &"/a".repeat(4096)] {
        assert!(unstage(path) == Err(Violation::Unreadable));
    }
}

#[test]
fn a_message_with_a_byte_more_or_less_is_not_read() {
    let message = encode(&publish(plan(3))).unwrap().to_vec();
    let longer = [&message[..], &[0]].concat();
    assert!(decode::<MounterRequest>(&longer) == Err(Violation::Unreadable));
    for end in 0..message.len() {
        assert!(decode::<MounterRequest>(&message[..end]) == Err(Violation::Unreadable));
    }
}

#[test]
fn a_message_that_is_too_large_is_not_written() {
    let request = publish(plan(MESSAGE_BYTES));
    assert!(matches!(
        encode(&request).err(),
        Some(Violation::TooLarge { .. })
    ));
}

proptest! {
    #[test]
    fn frames_of_any_bytes_are_decoded_or_rejected(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        if let Ok(request) = decode::<MounterRequest>(&bytes) {
            let again = encode(&request).unwrap();
            prop_assert!(decode::<MounterRequest>(&again) == Ok(request));
        }
    }
}
