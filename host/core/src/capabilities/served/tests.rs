//! Which exports enable which RPCs.

use super::*;
use crate::capabilities::{Hidden, Profile, Role};

fn served(offer: &ServiceSet, rpc: Rpc) -> bool {
    serves(
        offer,
        &Capabilities::derive(offer, Role::All, Profile::V1_13, &Hidden::default()),
        rpc,
    )
}

#[test]
fn a_backend_that_exports_everything_serves_everything() {
    let offer = ServiceSet::new(Service::ALL.iter().copied(), []);
    for rpc in Rpc::ALL {
        assert!(served(&offer, *rpc), "{rpc}");
    }
}

#[test]
fn a_backend_that_exports_nothing_serves_identity_and_tear_down() {
    let offer = ServiceSet::default();
    let rest: Vec<_> = Rpc::ALL
        .iter()
        .filter(|rpc| served(&offer, **rpc))
        .collect();
    assert_eq!(
        rest,
        [
            &Rpc::GetPluginInfo,
            &Rpc::GetPluginCapabilities,
            &Rpc::Probe,
            &Rpc::NodeUnstageVolume,
            &Rpc::NodeUnpublishVolume,
        ]
    );
}

#[test]
fn each_interface_brings_its_calls_and_no_others() {
    let table: &[(&[Service], &[Rpc])] = &[
        (
            &[Service::Controller],
            &[
                Rpc::CreateVolume,
                Rpc::DeleteVolume,
                Rpc::ValidateVolumeCapabilities,
                Rpc::ControllerGetCapabilities,
            ],
        ),
        (
            &[Service::Controller, Service::ControllerPublish],
            &[Rpc::ControllerPublishVolume, Rpc::ControllerUnpublishVolume],
        ),
        (
            &[Service::Controller, Service::ControllerExpand],
            &[Rpc::ControllerExpandVolume],
        ),
        (
            &[Service::Controller, Service::ControllerModify],
            &[Rpc::ControllerModifyVolume],
        ),
        (
            &[Service::Controller, Service::VolumeListing],
            &[Rpc::ListVolumes],
        ),
        (
            &[Service::Controller, Service::VolumeLookup],
            &[Rpc::ControllerGetVolume],
        ),
        (
            &[Service::Controller, Service::VolumeHealth],
            &[Rpc::ControllerGetVolumeHealth],
        ),
        (
            &[
                Service::Controller,
                Service::VolumeListing,
                Service::VolumeHealth,
            ],
            &[
                Rpc::ControllerGetVolumeHealth,
                Rpc::ControllerListVolumeHealth,
            ],
        ),
        (
            &[Service::Controller, Service::Capacity],
            &[Rpc::GetCapacity],
        ),
        (
            &[Service::Controller, Service::Snapshots],
            &[Rpc::CreateSnapshot, Rpc::DeleteSnapshot, Rpc::GetSnapshot],
        ),
        (
            &[
                Service::Controller,
                Service::Snapshots,
                Service::SnapshotListing,
            ],
            &[Rpc::ListSnapshots],
        ),
        (
            &[Service::GroupSnapshots],
            &[
                Rpc::GroupControllerGetCapabilities,
                Rpc::CreateVolumeGroupSnapshot,
                Rpc::DeleteVolumeGroupSnapshot,
                Rpc::GetVolumeGroupSnapshot,
            ],
        ),
        (
            &[Service::SnapshotMetadata],
            &[Rpc::GetMetadataAllocated, Rpc::GetMetadataDelta],
        ),
        (
            &[Service::NodeInfo],
            &[
                Rpc::NodeGetVolumeStats,
                Rpc::NodeGetCapabilities,
                Rpc::NodeGetInfo,
                Rpc::NodeGetVolumeHealth,
                Rpc::NodeGetStorageHealth,
            ],
        ),
        (
            &[Service::NodeInfo, Service::NodeStage],
            &[Rpc::NodeStageVolume, Rpc::NodePublishVolume],
        ),
        (
            &[Service::NodeInfo, Service::NodePublish],
            &[Rpc::NodePublishVolume],
        ),
    ];
    for (services, brought) in table {
        let with = ServiceSet::new(services.iter().copied(), []);
        let without = match services {
            [rest @ .., _] => ServiceSet::new(rest.iter().copied(), []),
            [] => ServiceSet::default(),
        };
        let mut gained: Vec<_> = Rpc::ALL
            .iter()
            .copied()
            .filter(|rpc| served(&with, *rpc) && !served(&without, *rpc))
            .collect();
        let mut brought = brought.to_vec();
        gained.sort();
        brought.sort();
        assert_eq!(gained, brought, "{services:?}");
    }
}
