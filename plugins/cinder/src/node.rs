//! The node service.
use crate::class::ZONE;
use crate::{Attacher, Cinder, settings};
use wasmount_guest::*;

/// cinder-csi-plugin looks for the device about as long.
const DEVICE_WAIT_MS: u32 = 20_000;
/// What a hypervisor keeps of an id in the serial number of a virtio disk.
const SERIAL_BYTES: usize = 20;

impl NodeInfo for Cinder {
    fn get_node_info() -> Result<NodeDescription, Error> {
        let settings = settings()?;
        let (id, zone) = match settings.attach {
            Attacher::Cinder => (None, settings.zone),
            Attacher::Nova => {
                let id = node_facts::instance_id()?;
                let zone = match settings.zone {
                    Some(zone) => Some(zone),
                    None => node_facts::zone()?,
                };
                (Some(id), zone)
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
        let names = names(&args.id);
        let facts = names.each_ref().map(|name| [("by-id", name.as_str())]);
        let alternatives = facts.each_ref().map(<[_; 1]>::as_slice);
        plan.any_device(&alternatives, true, DEVICE_WAIT_MS)?;
        plan.default_fs_type("ext4")
    }
}

/// The names below `/dev/disk/by-id` that hypervisors and versions of udev make of the id of a volume.
fn names(id: &str) -> [String; 5] {
    let serial = id.get(..SERIAL_BYTES).unwrap_or(id);
    [
        format!("virtio-{serial}"),
        format!("virtio-{id}"),
        format!("scsi-0QEMU_QEMU_HARDDISK_{serial}"),
        format!("scsi-0QEMU_QEMU_HARDDISK_{id}"),
        format!("wwn-0x{}", id.replace('-', "")),
    ]
}
