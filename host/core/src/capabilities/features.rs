//! Checks the features that a backend claims against its exports, and the interfaces that require another interface.

use crate::services::{Feature, Service, ServiceSet};

/// A feature is claimed, or an interface exported, without the interface that it requires.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{claim} {rule}")]
pub struct FeatureWithoutExport {
    /// The feature's or interface's name in the contract.
    pub claim: &'static str,
    /// What is wrong, as the end of a sentence.
    pub rule: &'static str,
}

/// Interfaces that require another interface, and the message when that one is missing.
const PARTS: &[(&[Service], Service, &str)] = &[
    // ValidateVolumeCapabilities is mandatory in CSI's Controller service, and only `controller` has it.
    (
        &[
            Service::ControllerPublish,
            Service::ControllerExpand,
            Service::ControllerModify,
            Service::VolumeListing,
            Service::VolumeLookup,
            Service::Capacity,
            Service::Snapshots,
            // It is called in the controller's process, beside the controller's records.
            Service::NodeRegister,
        ],
        Service::Controller,
        CONTROLLER_IS_MISSING,
    ),
    // ListSnapshots by id calls `snapshots`.
    (
        &[Service::SnapshotListing],
        Service::Snapshots,
        SNAPSHOTS_ARE_MISSING,
    ),
    (
        &[Service::NodeHooks],
        Service::NodeStage,
        "needs the interface `node-stage`",
    ),
];

const CONTROLLER_IS_MISSING: &str = "needs the interface `controller`";
const SNAPSHOTS_ARE_MISSING: &str = "needs the interface `snapshots`";
const MOUNTS_ARE_MISSING: &str = "needs the interface `node-stage` or `node-publish`";

/// Rejects features and interfaces that contradict the exports.
pub fn check_features(offer: &ServiceSet) -> Result<(), FeatureWithoutExport> {
    for (parts, whole, rule) in PARTS {
        let part = parts.iter().find(|part| offer.has(**part));
        if let Some(part) = part.filter(|_| !offer.has(*whole)) {
            return Err(FeatureWithoutExport {
                claim: part.interface(),
                rule,
            });
        }
    }
    for feature in offer.features() {
        if let Some(rule) = contradiction(offer, feature) {
            return Err(FeatureWithoutExport {
                claim: feature.name(),
                rule,
            });
        }
    }
    Ok(())
}

fn contradiction(offer: &ServiceSet, feature: Feature) -> Option<&'static str> {
    let controller = offer.has(Service::Controller);
    let publishes = offer.has(Service::ControllerPublish);
    let lists = offer.has(Service::VolumeListing) || offer.has(Service::VolumeLookup);
    let mounts = offer.has(Service::NodeStage) || offer.has(Service::NodePublish);
    let grows = offer.has(Service::ControllerExpand);
    let (is_met, rule) = match feature {
        Feature::CloneVolume => (controller, CONTROLLER_IS_MISSING),
        Feature::PublishReadonly => (publishes, "needs the interface `controller-publish`"),
        // CSI, LIST_VOLUMES_PUBLISHED_NODES: "the SP MUST also support PUBLISH_UNPUBLISH_VOLUME".
        Feature::PublishedNodes => (
            publishes && lists,
            "needs the interfaces `controller-publish` and `volume-listing` or `volume-lookup`",
        ),
        Feature::SingleNodeMultiWriter => (
            controller || mounts,
            "needs the interface `controller`, `node-stage` or `node-publish`",
        ),
        Feature::VolumeMountGroup => (mounts, MOUNTS_ARE_MISSING),
        // A driver with VOLUME_ACCESSIBILITY_CONSTRAINTS must answer NodeGetInfo with a topology.
        Feature::Topology => (
            offer.has(Service::NodeInfo),
            "needs the interface `node-info`",
        ),
        Feature::SnapshotTopology => (offer.has(Service::Snapshots), SNAPSHOTS_ARE_MISSING),
        Feature::OfflineExpansion => (
            grows || offer.claims(Feature::NodeOnlyExpansion),
            "needs the interface `controller-expand` or the feature `node-only-expansion`",
        ),
        Feature::NodeOnlyExpansion if grows => {
            (false, "contradicts the interface `controller-expand`")
        }
        Feature::NodeOnlyExpansion => (mounts, MOUNTS_ARE_MISSING),
    };
    (!is_met).then_some(rule)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(services: &[Service], features: &[Feature]) -> Result<(), &'static str> {
        let offer = ServiceSet::new(services.iter().copied(), features.iter().copied());
        check_features(&offer).map_err(|error| error.claim)
    }

    #[test]
    fn features_that_rest_on_their_exports_are_taken() {
        use Feature as F;
        use Service as S;
        let growing = [
            F::CloneVolume,
            F::PublishReadonly,
            F::PublishedNodes,
            F::SingleNodeMultiWriter,
            F::VolumeMountGroup,
            F::Topology,
            F::OfflineExpansion,
        ];
        assert_eq!(check(S::ALL, &growing), Ok(()));
        assert_eq!(check(&[], &[]), Ok(()));
        let node_only = [F::NodeOnlyExpansion, F::OfflineExpansion];
        assert_eq!(check(&[S::Controller, S::NodeStage], &node_only), Ok(()));
    }

    #[test]
    fn a_feature_without_its_export_is_refused() {
        for feature in Feature::ALL {
            assert_eq!(check(&[], &[*feature]), Err(feature.name()));
        }
        use Service as S;
        let unlisted = [S::Controller, S::ControllerPublish];
        let unpublished = [S::Controller, S::VolumeListing];
        for services in [unlisted, unpublished] {
            assert_eq!(
                check(&services, &[Feature::PublishedNodes]),
                Err("published-nodes")
            );
        }
        assert_eq!(
            check(S::ALL, &[Feature::NodeOnlyExpansion]),
            Err("node-only-expansion")
        );
    }

    #[test]
    fn an_interface_that_means_nothing_alone_is_refused() {
        for part in PARTS.iter().flat_map(|(parts, _, _)| *parts) {
            assert_eq!(check(&[*part], &[]), Err(part.interface()));
        }
    }
}
