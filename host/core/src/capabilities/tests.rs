//! What is advertised in CSI 1.12: one row an export or feature, then roles and hiding. `versions` has what 1.13 changes.

mod versions;

use super::*;

fn derive(services: &[Service], features: &[Feature]) -> Capabilities {
    derive_as(Profile::V1_12, Role::All, services, features, &[])
}

fn derive_as(
    profile: Profile,
    role: Role,
    services: &[Service],
    features: &[Feature],
    hidden: &[&str],
) -> Capabilities {
    let offer = ServiceSet::new(services.iter().copied(), features.iter().copied());
    Capabilities::derive(&offer, role, profile, &Hidden::parse(hidden).unwrap())
}

fn names(capabilities: &Capabilities) -> Vec<String> {
    let named = |(list, names): (&str, Vec<&str>)| -> Vec<_> {
        let names = names.into_iter().map(|name| format!("{list} {name}"));
        names.collect()
    };
    capabilities.names().into_iter().flat_map(named).collect()
}

/// Services, features, and the names that the last of them adds.
type Row<'a> = (&'a [Service], &'a [Feature], &'a [&'a str]);

/// All but the feature that contradicts `controller-expand`.
fn features() -> Vec<Feature> {
    let contradiction = |feature: &&Feature| **feature != Feature::NodeOnlyExpansion;
    Feature::ALL.iter().filter(contradiction).copied().collect()
}

#[test]
fn each_export_and_feature_adds_its_capabilities_and_no_others() {
    use Feature as F;
    use Service as S;
    let rows: &[Row<'_>] = &[
        (
            &[S::Controller],
            &[],
            &[
                "plugin CONTROLLER_SERVICE",
                "controller CREATE_DELETE_VOLUME",
            ],
        ),
        (
            &[S::Controller, S::ControllerPublish],
            &[],
            &["controller PUBLISH_UNPUBLISH_VOLUME"],
        ),
        (
            &[S::Controller, S::ControllerPublish],
            &[F::PublishReadonly],
            &["controller PUBLISH_READONLY"],
        ),
        (
            &[S::Controller, S::VolumeListing],
            &[],
            &["controller LIST_VOLUMES"],
        ),
        (
            &[S::Controller, S::VolumeLookup],
            &[],
            &["controller GET_VOLUME"],
        ),
        (
            &[S::Controller, S::ControllerPublish, S::VolumeListing],
            &[F::PublishedNodes],
            &["controller LIST_VOLUMES_PUBLISHED_NODES"],
        ),
        (
            &[S::Controller, S::ControllerPublish, S::VolumeLookup],
            &[F::PublishedNodes],
            &[],
        ),
        (
            &[S::Controller, S::Capacity],
            &[],
            &["controller GET_CAPACITY"],
        ),
        (
            &[S::Controller, S::Snapshots],
            &[],
            &[
                "controller CREATE_DELETE_SNAPSHOT",
                "controller GET_SNAPSHOT",
            ],
        ),
        (
            &[S::Controller, S::Snapshots, S::SnapshotListing],
            &[],
            &["controller LIST_SNAPSHOTS"],
        ),
        (
            &[S::Controller],
            &[F::CloneVolume],
            &["controller CLONE_VOLUME"],
        ),
        (
            &[S::Controller, S::ControllerModify],
            &[],
            &["controller MODIFY_VOLUME"],
        ),
        (
            &[S::Controller, S::ControllerExpand],
            &[],
            &["plugin ONLINE", "controller EXPAND_VOLUME"],
        ),
        (
            &[S::Controller, S::NodeStage, S::ControllerExpand],
            &[],
            &[
                "plugin ONLINE",
                "controller EXPAND_VOLUME",
                "node EXPAND_VOLUME",
            ],
        ),
        (
            &[S::NodeStage],
            &[F::NodeOnlyExpansion],
            &["plugin ONLINE", "node EXPAND_VOLUME"],
        ),
        (
            &[S::GroupSnapshots],
            &[],
            &[
                "plugin GROUP_CONTROLLER_SERVICE",
                "groupController CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT",
            ],
        ),
        (
            &[S::SnapshotMetadata],
            &[],
            &["plugin SNAPSHOT_METADATA_SERVICE"],
        ),
        (
            &[S::NodeInfo],
            &[],
            &["node GET_VOLUME_STATS", "node VOLUME_CONDITION"],
        ),
        (
            &[S::NodePublish],
            &[],
            &["node GET_VOLUME_STATS", "node VOLUME_CONDITION"],
        ),
        (
            &[S::NodeStage],
            &[],
            &[
                "node STAGE_UNSTAGE_VOLUME",
                "node GET_VOLUME_STATS",
                "node VOLUME_CONDITION",
            ],
        ),
        // The host reports its own view with or without this export.
        (&[S::NodeStage, S::VolumeHealth], &[], &[]),
        (&[S::Controller, S::Snapshots], &[F::SnapshotTopology], &[]),
        (
            &[S::Controller, S::VolumeLookup, S::VolumeHealth],
            &[],
            &["controller VOLUME_CONDITION"],
        ),
        (&[S::Controller, S::VolumeHealth], &[], &[]),
        (&[S::NodeStage, S::NodeHooks], &[], &[]),
        (
            &[S::Controller, S::NodeStage],
            &[F::SingleNodeMultiWriter],
            &[
                "controller SINGLE_NODE_MULTI_WRITER",
                "node SINGLE_NODE_MULTI_WRITER",
            ],
        ),
        (
            &[S::NodeStage],
            &[F::VolumeMountGroup],
            &["node VOLUME_MOUNT_GROUP"],
        ),
        (
            &[S::NodeInfo],
            &[F::Topology],
            &["plugin VOLUME_ACCESSIBILITY_CONSTRAINTS"],
        ),
    ];
    for row in rows {
        check_what_is_added(Profile::V1_12, row);
    }
}

/// Checks what the last feature adds or, without features, what the last service adds.
fn check_what_is_added(profile: Profile, (services, features, added): &Row<'_>) {
    let derive = |services: &[Service], features: &[Feature]| {
        names(&derive_as(profile, Role::All, services, features, &[]))
    };
    let without = match (features, services) {
        ([], [rest @ .., _]) => derive(rest, &[]),
        _ => derive(services, &[]),
    };
    let mut gained = derive(services, features);
    gained.retain(|name| !without.contains(name));
    assert_eq!(gained, *added, "{profile:?} {services:?} {features:?}");
}

#[test]
fn offline_expansion_is_said_in_place_of_online() {
    let services = [Service::Controller, Service::ControllerExpand];
    let capabilities = derive(&services, &[Feature::OfflineExpansion]);
    let plugin = &capabilities.plugin;
    assert!(plugin.contains(&PluginCapability::VolumeExpansionOffline));
    assert!(!plugin.contains(&PluginCapability::VolumeExpansionOnline));
}

#[test]
fn a_role_has_its_own_services_and_all_plugin_capabilities() {
    let all = derive(Service::ALL, &features());
    let controller = derive_as(
        Profile::V1_12,
        Role::Controller,
        Service::ALL,
        &features(),
        &[],
    );
    let node = derive_as(Profile::V1_12, Role::Node, Service::ALL, &features(), &[]);
    // external-resizer requests the node's list on the controller's socket.
    assert_eq!(controller, all);
    assert_eq!(
        node,
        Capabilities {
            controller: Vec::new(),
            group: Vec::new(),
            ..all
        }
    );
}

#[test]
fn what_is_hidden_is_not_advertised_anywhere() {
    for (profile, name) in [
        (Profile::V1_12, "GET_SNAPSHOT"),
        (Profile::V1_12, "VOLUME_CONDITION"),
        (Profile::V1_12, "SINGLE_NODE_MULTI_WRITER"),
        (Profile::V1_13, "LIST_VOLUME_HEALTH"),
        (Profile::V1_13, "GET_STORAGE_HEALTH"),
        (Profile::V1_13, "SNAPSHOT_ACCESSIBILITY_CONSTRAINTS"),
    ] {
        let of = |hidden: &[&str]| {
            let all = Service::ALL;
            names(&derive_as(profile, Role::All, all, &features(), hidden))
        };
        let rest: Vec<_> = of(&[])
            .into_iter()
            .filter(|shown| !shown.ends_with(name))
            .collect();
        assert_eq!(of(&[name]), rest);
    }
}

#[test]
fn what_rests_on_something_hidden_goes_with_it() {
    use Profile::{V1_12, V1_13};
    let rows: &[(Profile, &str, &[&str])] = &[
        (
            V1_12,
            "CONTROLLER_SERVICE",
            &["controller CREATE_DELETE_VOLUME", "controller GET_SNAPSHOT"],
        ),
        (
            V1_12,
            "GROUP_CONTROLLER_SERVICE",
            &["groupController CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT"],
        ),
        (
            V1_12,
            "PUBLISH_UNPUBLISH_VOLUME",
            &[
                "controller PUBLISH_READONLY",
                "controller LIST_VOLUMES_PUBLISHED_NODES",
            ],
        ),
        (
            V1_12,
            "LIST_VOLUMES",
            &["controller LIST_VOLUMES_PUBLISHED_NODES"],
        ),
        (
            V1_12,
            "EXPAND_VOLUME",
            &[
                "plugin OFFLINE",
                "controller EXPAND_VOLUME",
                "node EXPAND_VOLUME",
            ],
        ),
        (
            V1_13,
            "GET_VOLUME_HEALTH",
            &[
                "controller GET_VOLUME_HEALTH",
                "controller LIST_VOLUME_HEALTH",
                "node GET_VOLUME_HEALTH",
            ],
        ),
    ];
    for (profile, name, gone) in rows {
        let of = |hidden: &[&str]| {
            let all = Service::ALL;
            names(&derive_as(*profile, Role::All, all, &features(), hidden))
        };
        let (shown, hidden) = (of(&[]), of(&[name]));
        for gone in *gone {
            assert!(shown.iter().any(|shown| shown == gone), "{gone}");
            assert!(!hidden.iter().any(|shown| shown == gone), "{name}: {gone}");
        }
    }
}

#[test]
fn without_a_plugin_only_tear_down_is_advertised() {
    let hidden = Hidden::default();
    for role in [Role::All, Role::Node] {
        assert_eq!(
            names(&Capabilities::without_plugin(role, &hidden)),
            ["node STAGE_UNSTAGE_VOLUME", "node GET_VOLUME_STATS"]
        );
    }
    let controller = Capabilities::without_plugin(Role::Controller, &hidden);
    assert_eq!(controller, Capabilities::default());
}
