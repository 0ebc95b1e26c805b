//! Tests of the protocol with hand-made bytes: a message of one side can be read by the other, and nothing else is accepted.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;
use wasmount_core::health::{Health, HealthStatus};
use wasmount_core::mounter::{HealthQuery, MounterRequest, PublishVolume, Staged, VolumeKey};
use wasmount_core::names::{DriverName, NodePath, VolumeId};
use wasmount_core::plan::{Plan, PlanFile, Source};
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
    }
}

fn publish(content: usize) -> MounterRequest {
    MounterRequest::Publish(PublishVolume {
        key: key(),
        staging_path: None,
        target_path: path("/pods/r/mount"),
        capability: capability(),
        readonly: true,
        plan: Some(plan(content)),
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

/// Assembles a message from its own packets.
fn crossed(message: &[u8]) -> Option<Message> {
    let mut assembly = Assembly::default();
    let mut whole = None;
    for packet in packets(message) {
        assert!(whole.is_none() && packet.len() <= PACKET_BYTES);
        whole = assembly.add(&packet).unwrap();
    }
    whole
}

#[test]
fn a_request_is_read_as_it_was_written_in_one_packet_or_many() {
    for (content, wanted) in [(0, 1), (10, 1), (1 << 20, 65)] {
        let request = publish(content);
        let message = encode(&request).unwrap();
        assert_eq!(packets(&message).count(), wanted);
        let read: MounterRequest = decode(&crossed(&message).unwrap()).unwrap();
        assert!(read == request);
    }
}

#[test]
fn what_crosses_is_the_same_as_ever_in_this_version() {
    let hex = |message: Message| message.iter().map(|byte| format!("{byte:02x}")).collect();
    let request: String = hex(encode(&publish(2)).unwrap());
    let refused: Reply = Err(MountError::Kernel {
        operation: "mount".to_owned(),
        object: "/a".to_owned(),
        errno: 5,
        text: "e".to_owned(),
    });
    let reply: String = hex(encode(&refused).unwrap());
    let asked: String = hex(encode(&MounterRequest::Health(query())).unwrap());
    let found: Reply = Ok(MounterResponse::Health(vec![finding(HealthStatus::Other(
        300,
    ))]));
    let found: String = hex(encode(&found).unwrap());
    let asked_extents: String = hex(encode(&changed_extents()).unwrap());
    let told: String = hex(encode(&Reply::Ok(extents())).unwrap());
    // If this fails, the format of a type that is sent has changed: add one to `VERSION`, and update the bytes here.
    assert_eq!(
        (VERSION, request.as_str(), reply.as_str()),
        (
            4,
            "040e6469726563746f72792e746573740176000d2f706f64732f722f6d6f756e740101046578743401076e6f6174696d6501\
             013707630101050105746f6b656e800202070700000106706f7274616c0161010870617373776f72640868756e7465723232",
            "0112056d6f756e74022f610a0165"
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
            "00040103ac020152016d",
            "0c0e6469726563746f72792e746573740c046461746101610162802007",
            "00080501802080808080802001ffffffffffffffffff01"
        )
    );
}

#[test]
fn a_reply_is_read_as_it_was_written() {
    let errors = [
        MountError::UnderWay {
            what: "it".to_owned(),
        },
        MountError::Kernel {
            operation: "mount".to_owned(),
            object: "/a".to_owned(),
            errno: 5,
            text: "input/output error".to_owned(),
        },
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
    ];
    let replies = answers.map(Ok).into_iter().chain(errors.map(Err));
    for reply in replies {
        let message = encode(&reply).unwrap();
        assert!(decode::<Reply>(&message).unwrap() == reply);
    }
}

/// `Notes` with any strings: the variant's number and the fields, as postcard writes them.
fn hand_made(driver: &str, volume: &str) -> Vec<u8> {
    postcard::to_stdvec(&(2u8, driver, volume)).unwrap()
}

#[test]
fn words_that_were_never_parsed_are_not_read() {
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
    let message = encode(&publish(3)).unwrap().to_vec();
    let longer = [&message[..], &[0]].concat();
    assert!(decode::<MounterRequest>(&longer) == Err(Violation::Unreadable));
    for end in 0..message.len() {
        assert!(decode::<MounterRequest>(&message[..end]) == Err(Violation::Unreadable));
    }
}

#[test]
fn a_message_that_is_too_large_is_neither_written_nor_kept() {
    let request = publish(MESSAGE_BYTES);
    assert!(matches!(
        encode(&request).err(),
        Some(Violation::TooLarge { .. })
    ));
    let announced = u32::try_from(MESSAGE_BYTES).unwrap().to_le_bytes();
    let packet = [&announced[..], &[0]].concat();
    let bytes = MESSAGE_BYTES + 1;
    let added = Assembly::default().add(&packet).err();
    assert_eq!(added, Some(Violation::TooLarge { bytes }));
}

#[test]
fn packets_out_of_step_are_refused() {
    let packet = |to_come: u32, part: &[u8]| [&to_come.to_le_bytes()[..], part].concat();
    for (packets, refused) in [
        (vec![vec![0; 3]], Violation::Packet { bytes: 3 }),
        (vec![packet(0, &[])], Violation::Packet { bytes: 4 }),
        (
            vec![packet(0, &vec![0; PART_BYTES + 1])],
            Violation::Packet {
                bytes: PACKET_BYTES + 1,
            },
        ),
        (
            vec![packet(10, b"a"), packet(10, b"b")],
            Violation::OutOfStep {
                expected: 10,
                found: 11,
            },
        ),
        (
            vec![packet(10, b"a"), packet(0, b"b")],
            Violation::OutOfStep {
                expected: 10,
                found: 1,
            },
        ),
    ] {
        let mut assembly = Assembly::default();
        let added: Result<Vec<_>, _> = packets.iter().map(|it| assembly.add(it)).collect();
        assert_eq!(added.err(), Some(refused));
    }
}

#[test]
fn a_greeting_is_understood_as_far_as_its_version_is() {
    let boot_id = BootId::begin().unwrap();
    let ours = Greeting::of(boot_id);
    assert_eq!(Greeting::read(&ours.bytes()), Ok(ours));
    let later = |rest: &[u8]| [&MAGIC[..], &7u32.to_le_bytes(), rest].concat();
    for rest in [&b""[..], b"and more of it than ours has"] {
        assert_eq!(Greeting::read(&later(rest)).map(|it| it.version), Ok(7));
    }
    let ours = ours.bytes();
    for refused in [&b""[..], b"GET / HTTP/1.1", &ours[..11], &ours[..27]] {
        assert_eq!(Greeting::read(refused), Err(Violation::NoGreeting));
    }
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
        let _ = Greeting::read(&bytes);
        let _ = Assembly::default().add(&bytes);
    }

    #[test]
    fn any_message_crosses_in_packets(bytes in 1usize..(5 * PART_BYTES)) {
        let message: Vec<u8> = (0..bytes).map(|it| it.to_le_bytes()[0]).collect();
        prop_assert_eq!(crossed(&message).map(|it| it.to_vec()), Some(message));
    }
}
