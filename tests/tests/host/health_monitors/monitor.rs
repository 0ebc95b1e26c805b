//! external-health-monitor v0.18: what it needs before it starts, and how it learns the conditions of volumes: all by ListVolumes where the
//! driver lists, else each by ControllerGetVolume.

use std::collections::BTreeMap;
use std::path::Path;
use wasmount_csi::wire::csi::v1::controller_service_capability::Type as ControllerType;
use wasmount_csi::wire::csi::v1::controller_service_capability::rpc::Type as Offered;
use wasmount_csi::wire::csi::v1::plugin_capability::Type as PluginType;
use wasmount_csi::wire::csi::v1::plugin_capability::service::Type as Service;
use wasmount_csi::wire::csi::v1::{
    ControllerGetCapabilitiesRequest, ControllerGetVolumeRequest, GetPluginCapabilitiesRequest,
    GetPluginInfoRequest, ListVolumesRequest, ProbeRequest, VolumeCondition,
};
use xtask::clients::Clients;

/// A monitor at work.
pub(crate) struct Monitor {
    clients: Clients,
    lists: bool,
}

impl Monitor {
    /// Does what it does at its start, and ends the test where it would end.
    pub(crate) async fn start(socket: &Path) -> Self {
        let mut clients = Clients::connect(socket).await.unwrap();
        clients.ready().await.unwrap();
        let probe = clients.identity.probe(ProbeRequest {}).await.unwrap();
        assert!(probe.get_ref().ready.unwrap_or(true));
        let info = clients.identity.get_plugin_info(GetPluginInfoRequest {});
        assert!(!info.await.unwrap().get_ref().name.is_empty());
        let request = GetPluginCapabilitiesRequest {};
        let offered = clients.identity.get_plugin_capabilities(request);
        let offered = offered.await.unwrap().into_inner().capabilities;
        let serves_controller = offered.into_iter().any(|it| match it.r#type {
            Some(PluginType::Service(it)) => it.r#type == Service::ControllerService as i32,
            _ => false,
        });
        assert!(serves_controller, "it would end");
        let request = ControllerGetCapabilitiesRequest {};
        let offered = clients.controller.controller_get_capabilities(request);
        let offered = offered.await.unwrap().into_inner().capabilities;
        let offers = |wanted: Offered| {
            offered.iter().any(|it| match &it.r#type {
                Some(ControllerType::Rpc(rpc)) => rpc.r#type == wanted as i32,
                _ => false,
            })
        };
        let lists = offers(Offered::ListVolumes);
        assert!(lists || offers(Offered::GetVolume), "it would end");
        assert!(offers(Offered::VolumeCondition), "it would end");
        Self { clients, lists }
    }

    /// One interval: each volume that it would write an event about (`VolumeConditionAbnormal`), and the words.
    pub(crate) async fn abnormal(&self, volumes: &[&str]) -> BTreeMap<String, String> {
        assert!(self.lists, "a monitor asks for each only where it must");
        loop {
            let all = self.listed().await;
            let each = self.got(volumes).await;
            // What a backend said may become too old between two questions: only what did not change meanwhile can be compared.
            if self.listed().await == all {
                assert_eq!(all, each, "it must not matter how it asks");
                return all;
            }
        }
    }

    async fn listed(&self) -> BTreeMap<String, String> {
        let (mut abnormal, mut token) = (BTreeMap::new(), String::new());
        loop {
            let request = ListVolumesRequest {
                starting_token: token,
                ..ListVolumesRequest::default()
            };
            let page = self.clients.controller.clone().list_volumes(request).await;
            let page = page.unwrap().into_inner();
            for entry in page.entries {
                let id = entry.volume.unwrap().volume_id;
                said(&mut abnormal, &id, entry.status.unwrap().volume_condition);
            }
            token = page.next_token;
            if token.is_empty() {
                return abnormal;
            }
        }
    }

    async fn got(&self, volumes: &[&str]) -> BTreeMap<String, String> {
        let mut abnormal = BTreeMap::new();
        for id in volumes {
            let request = ControllerGetVolumeRequest {
                volume_id: (*id).to_owned(),
            };
            let mut controller = self.clients.controller.clone();
            let answer = controller.controller_get_volume(request).await.unwrap();
            let status = answer.into_inner().status.unwrap();
            said(&mut abnormal, id, status.volume_condition);
        }
        abnormal
    }
}

/// VOLUME_CONDITION promises a condition of every volume.
fn said(all: &mut BTreeMap<String, String>, id: &str, condition: Option<VolumeCondition>) {
    let condition = condition.unwrap();
    if condition.abnormal {
        all.insert(id.to_owned(), condition.message);
    }
}
