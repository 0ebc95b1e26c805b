//! What is advertised: one row an export or feature, then roles and hiding.

use super::*;

fn derive(services: &[Service], features: &[Feature]) -> Capabilities {
    derive_as(Role::All, services, features, &[])
}

fn derive_as(
    role: Role,
    services: &[Service],
    features: &[Feature],
    hidden: &[&str],
) -> Capabilities {
    let offer = Offer::new(services.iter().copied(), features.iter().copied());
    Capabilities::derive(&offer, role, &Hidden::parse(hidden).unwrap())
}

fn names(capabilities: &Capabilities) -> Vec<String> {
    let plugin = capabilities.plugin.iter().map(|c| ("plugin", c.name()));
    let controller = capabilities
        .controller
        .iter()
        .map(|c| ("controller", c.name()));
    let group = capabilities.group.iter().map(|c| ("group", c.name()));
    let node = capabilities.node.iter().map(|c| ("node", c.name()));
    plugin
        .chain(controller)
        .chain(group)
        .chain(node)
        .map(|(list, name)| format!("{list} {name}"))
        .collect()
}

/// All but the feature that contradicts `controller-expand`.
fn features() -> Vec<Feature> {
    let contradiction = |feature: &&Feature| **feature != Feature::NodeOnlyExpansion;
    Feature::ALL.iter().filter(contradiction).copied().collect()
}

#[test]
fn each_export_and_feature_adds_its_capabilities_and_no_others() {
    use Feature as F;
    use Service as S;
    type Row<'a> = (&'a [S], &'a [F], &'a [&'a str]);
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
                "group CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT",
            ],
        ),
        (
            &[S::SnapshotMetadata],
            &[],
            &["plugin SNAPSHOT_METADATA_SERVICE"],
        ),
        (&[S::NodeInfo], &[], &["node GET_VOLUME_STATS"]),
        (&[S::NodePublish], &[], &["node GET_VOLUME_STATS"]),
        (
            &[S::NodeStage],
            &[],
            &["node STAGE_UNSTAGE_VOLUME", "node GET_VOLUME_STATS"],
        ),
        (
            &[S::NodeStage, S::VolumeHealth],
            &[],
            &["node VOLUME_CONDITION"],
        ),
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
    for (services, features, added) in rows {
        // What the last feature adds or, where there is none, the last service.
        let without = match (features, services) {
            ([], [rest @ .., _]) => derive(rest, &[]),
            _ => derive(services, &[]),
        };
        let without = names(&without);
        let mut gained = names(&derive(services, features));
        gained.retain(|name| !without.contains(name));
        assert_eq!(gained, *added, "{services:?} {features:?}");
    }
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
fn a_role_has_its_own_services_and_the_whole_lists_of_plugin_and_node() {
    let all = derive(Service::ALL, &features());
    let controller = derive_as(Role::Controller, Service::ALL, &features(), &[]);
    let node = derive_as(Role::Node, Service::ALL, &features(), &[]);
    // The node's list is asked for by external-resizer, on the controller's socket.
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
    for name in [
        "GET_SNAPSHOT",
        "VOLUME_CONDITION",
        "SINGLE_NODE_MULTI_WRITER",
    ] {
        let shown = names(&derive(Service::ALL, &features()));
        let hidden = derive_as(Role::All, Service::ALL, &features(), &[name]);
        let rest: Vec<_> = shown
            .into_iter()
            .filter(|shown| !shown.ends_with(name))
            .collect();
        assert_eq!(names(&hidden), rest);
    }
}

#[test]
fn what_rests_on_something_hidden_goes_with_it() {
    let rows: &[(&str, &[&str])] = &[
        (
            "CONTROLLER_SERVICE",
            &["controller CREATE_DELETE_VOLUME", "controller GET_SNAPSHOT"],
        ),
        (
            "GROUP_CONTROLLER_SERVICE",
            &["group CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT"],
        ),
        (
            "PUBLISH_UNPUBLISH_VOLUME",
            &[
                "controller PUBLISH_READONLY",
                "controller LIST_VOLUMES_PUBLISHED_NODES",
            ],
        ),
        ("LIST_VOLUMES", &["controller LIST_VOLUMES_PUBLISHED_NODES"]),
        (
            "EXPAND_VOLUME",
            &[
                "plugin OFFLINE",
                "controller EXPAND_VOLUME",
                "node EXPAND_VOLUME",
            ],
        ),
    ];
    for (name, gone) in rows {
        let shown = names(&derive(Service::ALL, &features()));
        let hidden = names(&derive_as(Role::All, Service::ALL, &features(), &[name]));
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
