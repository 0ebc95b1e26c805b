//! The node service.
use crate::class::ZONE;
use crate::{Attacher, Cinder, settings};
use serde::Deserialize;
use wasmount_guest::*;

/// cinder-csi-plugin looks for the device about as long.
const DEVICE_WAIT_MS: u32 = 20_000;
/// What a hypervisor keeps of an id in the serial number of a virtio disk.
const SERIAL_BYTES: usize = 20;

/// How a hypervisor puts the id of a volume in the names below `/dev/disk/by-id`.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Spelling {
    Virtio,
    VirtioWhole,
    Scsi,
    ScsiWhole,
    Wwn,
}

/// What Nova's metadata service says of an instance.
#[derive(Deserialize)]
struct Instance {
    uuid: String,
    availability_zone: Option<String>,
}

impl NodeInfo for Cinder {
    fn get_node_info() -> Result<NodeDescription, Error> {
        let settings = settings()?;
        let (id, zone) = match settings.attach {
            Attacher::Cinder => (None, settings.zone),
            Attacher::Nova => {
                let answer = http::get("metadata", "/openstack/latest/meta_data.json").send()?;
                let instance: Instance = answer.must_succeed()?.json()?;
                (
                    Some(instance.uuid),
                    settings.zone.or(instance.availability_zone),
                )
            }
        };
        Ok(NodeDescription {
            id,
            max_volumes: Some(settings.node_volume_attach_limit),
            topology: zone.map(|zone| Topology::of(ZONE, zone)),
        })
    }
}

impl NodeStage for Cinder {
    fn node_stage(args: NodeStageArgs, plan: &Plan) -> Result<(), Error> {
        let by_id = settings()?.by_id.of(&args.id);
        plan.device(&[("by-id", &by_id)], DEVICE_WAIT_MS)?;
        plan.default_fs_type("ext4")
    }
}

impl Spelling {
    fn of(self, id: &str) -> String {
        let serial = id.get(..SERIAL_BYTES).unwrap_or(id);
        match self {
            Self::Virtio => format!("virtio-{serial}"),
            Self::VirtioWhole => format!("virtio-{id}"),
            Self::Scsi => format!("scsi-0QEMU_QEMU_HARDDISK_{serial}"),
            Self::ScsiWhole => format!("scsi-0QEMU_QEMU_HARDDISK_{id}"),
            Self::Wwn => format!("wwn-0x{}", id.replace('-', "")),
        }
    }
}
