//! Records of volumes: what was asked for, so that it can be answered. Those whose source is a directory or an image have it in a pool.
use serde::{Deserialize, Serialize};
use wasmount_guest::*;

pub(crate) const POOL: Pool = Pool::named("volumes");
pub(crate) const VOLUMES: state::Collection<Record, 1> = state::Collection::new("volume");

#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) bytes: u64,
    pub(crate) source: Option<ContentSource>,
    pub(crate) context: Attributes,
    pub(crate) class: Attributes, // of the last ControllerModifyVolume
    pub(crate) nodes: Vec<NodeId>,
}

impl Record {
    pub(crate) fn show(self, id: String) -> Volume {
        let volume = Volume::new(id, self.bytes).copied_from(self.source);
        Volume {
            context: self.context,
            ..volume
        }
    }

    pub(crate) fn entry(self, id: String) -> VolumeEntry {
        let nodes = self.nodes.clone();
        VolumeEntry::new(self.show(id)).published_to(nodes)
    }
}
