//! What CSI 1.13 changes in what is advertised, and that it changes nothing else.

use super::*;

#[test]
fn csi_1_13_reports_health_by_calls_and_snapshot_topology() {
    use Feature as F;
    use Service as S;
    let rows: &[Row<'_>] = &[
        (
            &[S::Controller, S::VolumeHealth],
            &[],
            &["controller GET_VOLUME_HEALTH"],
        ),
        (
            &[S::Controller, S::VolumeLookup, S::VolumeHealth],
            &[],
            &["controller GET_VOLUME_HEALTH"],
        ),
        (
            &[S::Controller, S::VolumeListing, S::VolumeHealth],
            &[],
            &[
                "controller GET_VOLUME_HEALTH",
                "controller LIST_VOLUME_HEALTH",
            ],
        ),
        (
            &[S::Controller, S::VolumeListing],
            &[],
            &["controller LIST_VOLUMES"],
        ),
        (
            &[S::NodeInfo],
            &[],
            &[
                "node GET_VOLUME_STATS",
                "node GET_VOLUME_HEALTH",
                "node GET_STORAGE_HEALTH",
            ],
        ),
        (&[S::NodeStage, S::VolumeHealth], &[], &[]),
        (
            &[S::Controller, S::Snapshots],
            &[F::SnapshotTopology],
            &["plugin SNAPSHOT_ACCESSIBILITY_CONSTRAINTS"],
        ),
    ];
    for row in rows {
        check_what_is_added(Profile::V1_13, row);
    }
}

#[test]
fn the_profiles_differ_in_health_and_snapshot_topology_only() {
    let of = |profile| {
        names(&derive_as(
            profile,
            Role::All,
            Service::ALL,
            &features(),
            &[],
        ))
    };
    let (old, new) = (of(Profile::V1_12), of(Profile::V1_13));
    let missing_in = |all: &[String], some: &[String]| {
        let missing = some.iter().filter(|name| !all.contains(name));
        missing.cloned().collect::<Vec<_>>()
    };
    assert_eq!(
        missing_in(&new, &old),
        ["controller VOLUME_CONDITION", "node VOLUME_CONDITION"]
    );
    assert_eq!(
        missing_in(&old, &new),
        [
            "plugin SNAPSHOT_ACCESSIBILITY_CONSTRAINTS",
            "controller GET_VOLUME_HEALTH",
            "controller LIST_VOLUME_HEALTH",
            "node GET_VOLUME_HEALTH",
            "node GET_STORAGE_HEALTH",
        ]
    );
}
