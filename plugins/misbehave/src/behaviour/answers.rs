//! Answers that violate CSI or the contract, or that differ each time.

use super::{Deed, Table, random};
use crate::pairs;
use std::time::{Duration, Instant};
use wasmount_guest::{
    Attributes, Available, ContentSource, Error, Extent, GroupSnapshot, Health, HealthStatus,
    MetadataPage, NodeDescription, Snapshot, Topology, Volume, VolumePage,
};

/// CPU time of a page: far below the limit of a call.
const COMPUTED: Duration = Duration::from_millis(20);

/// Errors in place of an answer.
pub const ERRORS: Table<Deed> = &[
    ("error", || Err(Error::out_of_range("no such size"))),
    ("long-error", || {
        Err(Error::internal(
            "\u{1b}[2J".to_owned() + &"e".repeat(1 << 20),
        ))
    }),
];

pub const VOLUMES: Table<fn(&mut Volume)> = &[
    ("empty-id", |volume| volume.id = String::new()),
    ("long-id", |volume| volume.id = "v".repeat(129)),
    ("huge-id", |volume| volume.id = "v".repeat(2 << 10)),
    ("nul-id", |volume| volume.id = "a\0b".to_owned()),
    ("parent-id", |volume| volume.id = "../../../etc".to_owned()),
    ("other-id-each-time", |volume| {
        volume.id = format!("behave.{:x}", random());
    }),
    ("big-context", |volume| {
        volume.context = pairs(&[("key", &"v".repeat(4096))]);
    }),
    ("key-twice", |volume| {
        volume.context = pairs(&[("key", "1"), ("key", "2")]);
    }),
    ("empty-key-in-context", |volume| {
        volume.context = pairs(&[("", "1")]);
    }),
    ("too-large", |volume| volume.capacity_bytes = 1 << 62),
    ("beyond-csi", |volume| volume.capacity_bytes = 1 << 63),
    ("unknown-size", |volume| volume.capacity_bytes = 0),
    ("other-source", |volume| {
        volume.content_source = Some(ContentSource::Volume("other".to_owned()));
    }),
    ("bad-topology", |volume| {
        volume.accessible_topology = vec![Topology {
            segments: pairs(&[("zone/", "a b")]),
        }];
    }),
    ("huge-answer", |volume| {
        volume.context = pairs(&[("key", &"v".repeat(10 << 20))]);
    }),
];

/// Answers of ControllerPublishVolume.
pub const CONTEXTS: Table<fn(&mut Attributes)> = &[
    ("big-publish-context", |context| {
        *context = pairs(&[("key", &"v".repeat(4096))]);
    }),
    ("publish-key-twice", |context| {
        *context = pairs(&[("key", "1"), ("key", "2")]);
    }),
];

pub const CAPACITIES: Table<fn(&mut Available)> = &[
    ("capacity-beyond-csi", |available| {
        available.available_bytes = 1 << 63
    }),
    ("minimum-above-maximum", |available| {
        available.maximum_volume_bytes = Some(1);
        available.minimum_volume_bytes = Some(2);
    }),
];

pub const HEALTHS: Table<fn(&mut Vec<Health>)> = &[("too-many-healths", |healths| {
    *healths = vec![
        Health {
            status: HealthStatus::Degraded,
            reason: "Bored".to_owned(),
            message: "m".repeat(1 << 10),
        };
        65
    ];
})];

pub const SNAPSHOTS: Table<fn(&mut Snapshot)> = &[
    ("never-ready", |snapshot| snapshot.ready_to_use = false),
    ("snapshot-of-another", |snapshot| {
        snapshot.source_volume = "another".to_owned();
    }),
    ("empty-snapshot-id", |snapshot| snapshot.id = String::new()),
    ("other-snapshot-id", |snapshot| {
        snapshot.id = format!("{:x}", random());
    }),
    ("snapshot-beyond-csi", |snapshot| {
        snapshot.size_bytes = 1 << 63
    }),
];

pub const GROUPS: Table<fn(&mut GroupSnapshot)> = &[
    ("member-missing", |group| {
        group.snapshots.pop();
    }),
    ("member-of-no-group", |group| {
        for member in &mut group.snapshots {
            member.group_snapshot_id = None;
        }
    }),
];

pub const METADATA: Table<fn(&mut MetadataPage)> = &[
    ("empty-extent", |page| {
        page.extents = vec![Extent {
            offset_bytes: 0,
            size_bytes: 0,
        }];
    }),
    ("extent-behind-the-end", |page| {
        page.extents = vec![Extent {
            offset_bytes: page.volume_capacity_bytes,
            size_bytes: u64::MAX,
        }];
    }),
    ("pages-without-end", |page| {
        page.next_offset = Some(page.volume_capacity_bytes + 1);
    }),
    ("same-page-for-ever", |page| page.next_offset = Some(0)),
];

/// Each page has a new token, so that the list has no end.
pub const PAGES: Table<fn(&mut VolumePage)> = &[
    ("empty-pages", |page| {
        page.entries.clear();
        page.next_token = Some(random().to_string());
    }),
    ("computing-pages", |page| {
        let until = Instant::now() + COMPUTED;
        while Instant::now() < until {}
        page.entries.truncate(1);
        page.next_token = Some(random().to_string());
    }),
];

/// Answers of NodeGetInfo, selected by the setting `get-node-info`.
pub const NODES: Table<fn(&mut NodeDescription)> = &[
    ("other-node-each-time", |node| {
        let other = format!("{:x}", random());
        let segments = pairs(&[("misbehave.wasmount.io/zone", &other)]);
        node.topology = Some(Topology { segments });
        node.id = Some(other);
    }),
    ("too-many-volumes", |node| node.max_volumes = Some(1 << 63)),
    ("huge-node-id", |node| node.id = Some("n".repeat(2 << 10))),
];
