//! Checks answers about volumes: created, listed, their health.

use super::{Checker, Invalid, bytes, same};
use crate::bindings::exported::{
    capacity, controller, controller_expand, volume_health, volume_listing,
};
use crate::bindings::types;
use crate::convert::Convert;
use wasmount_core::backend::{Available, Expanded, Validation};
use wasmount_core::health::Health;
use wasmount_core::names::VolumeId;
use wasmount_core::volume::{
    CapacityRange, ContentSource, Page, PageRequest, Volume, VolumeCondition, VolumeEntry,
    VolumeStatus,
};

/// Most health conditions of one volume.
const HEALTHS: usize = 64;

impl Checker {
    /// The answer to create-volume: within the capacity range, from the requested source.
    pub(crate) fn created(
        &self,
        volume: types::Volume,
        range: &CapacityRange,
        source: &Option<ContentSource>,
    ) -> Result<Volume, Invalid> {
        let volume = self.volume(volume)?;
        let capacity = volume.capacity_bytes;
        if capacity != 0 && !range.contains(capacity) {
            return Err(Invalid::of_plugin(format!(
                "capacity_bytes {capacity} is outside of the requested range"
            )));
        }
        same("content_source", &volume.content_source, source)?;
        Ok(volume)
    }

    pub(crate) fn volume(&self, volume: types::Volume) -> Result<Volume, Invalid> {
        let types::Volume {
            id,
            capacity_bytes,
            context,
            content_source,
            accessible_topology,
        } = volume;
        Ok(Volume {
            id: self.id("volume_id", id)?,
            capacity_bytes: bytes("capacity_bytes", capacity_bytes)?,
            context: self.attributes("volume_context", context)?,
            content_source: content_source
                .map(|source| self.content_source(source))
                .transpose()?,
            accessible_topology: self.topologies(accessible_topology)?,
        })
    }

    /// The answer to get-volume.
    pub(crate) fn found_volume(
        &self,
        entry: types::VolumeEntry,
        requested: &VolumeId,
    ) -> Result<VolumeEntry, Invalid> {
        let entry = self.entry(entry)?;
        same("volume_id", &entry.volume.id, requested)?;
        Ok(entry)
    }

    pub(crate) fn volumes(
        &self,
        page: volume_listing::VolumePage,
        requested: &PageRequest,
    ) -> Result<Page<VolumeEntry>, Invalid> {
        let volume_listing::VolumePage {
            entries,
            next_token,
        } = page;
        self.page(entries, next_token, requested, Self::entry)
    }

    pub(crate) fn validation(&self, validation: controller::Validation) -> Validation {
        match validation {
            controller::Validation::Confirmed => Validation::Confirmed,
            controller::Validation::Unsupported(why) => Validation::Unsupported(self.text(&why)),
        }
    }

    /// The answer to expand-volume. CSI requires the size, so 0 does not mean unknown here: Kubernetes would use it as the size.
    pub(crate) fn expanded(
        &self,
        expanded: controller_expand::Expanded,
        requested: &CapacityRange,
    ) -> Result<Expanded, Invalid> {
        let controller_expand::Expanded {
            capacity_bytes,
            node_expansion_required,
        } = expanded;
        let capacity_bytes = bytes("capacity_bytes", capacity_bytes)?;
        if capacity_bytes == 0 || !requested.contains(capacity_bytes) {
            return Err(Invalid::of_plugin(format!(
                "capacity_bytes {capacity_bytes} is outside of the requested range"
            )));
        }
        Ok(Expanded {
            capacity_bytes,
            node_expansion_required,
        })
    }

    pub(crate) fn available(&self, available: capacity::Available) -> Result<Available, Invalid> {
        let capacity::Available {
            available_bytes,
            maximum_volume_bytes,
            minimum_volume_bytes,
        } = available;
        let maximum = maximum_volume_bytes
            .map(|maximum| bytes("maximum_volume_bytes", maximum))
            .transpose()?;
        let minimum = minimum_volume_bytes
            .map(|minimum| bytes("minimum_volume_bytes", minimum))
            .transpose()?;
        if let (Some(minimum), Some(maximum)) = (minimum, maximum)
            && minimum > maximum
        {
            return Err(Invalid::of_plugin(
                "minimum_volume_bytes is above maximum_volume_bytes",
            ));
        }
        Ok(Available {
            available_bytes: bytes("available_bytes", available_bytes)?,
            maximum_volume_bytes: maximum,
            minimum_volume_bytes: minimum,
        })
    }

    pub(crate) fn healths(
        &self,
        healths: Vec<volume_health::Health>,
    ) -> Result<Vec<Health>, Invalid> {
        if healths.len() > HEALTHS {
            return Err(Invalid::of_plugin(format!(
                "it has more than {HEALTHS} conditions"
            )));
        }
        let healths = healths.into_iter().map(|health| {
            let volume_health::Health {
                status,
                reason,
                message,
            } = health;
            Health {
                status: status.convert(),
                reason: self.text(&reason),
                message: self.text(&message),
            }
        });
        Ok(healths.collect())
    }

    fn entry(&self, entry: types::VolumeEntry) -> Result<VolumeEntry, Invalid> {
        let types::VolumeEntry { volume, status } = entry;
        let types::VolumeStatus {
            published_nodes,
            condition,
        } = status;
        Ok(VolumeEntry {
            volume: self.volume(volume)?,
            status: VolumeStatus {
                published_nodes: published_nodes
                    .into_iter()
                    .map(|node| self.node_id(node))
                    .collect::<Result<_, _>>()?,
                condition: condition.map(|condition| {
                    let types::VolumeCondition { abnormal, message } = condition;
                    VolumeCondition {
                        abnormal,
                        message: self.text(&message),
                    }
                }),
            },
        })
    }

    fn content_source(&self, source: types::ContentSource) -> Result<ContentSource, Invalid> {
        if let types::ContentSource::Snapshot(id) | types::ContentSource::Volume(id) = &source {
            self.without_secret("content_source", id)?;
        }
        match source {
            types::ContentSource::Snapshot(id) => Ok(ContentSource::Snapshot(
                // The client sent it, and its ids may be longer than a plugin's.
                wasmount_core::names::SnapshotId::parse("snapshot_id", id)?,
            )),
            types::ContentSource::Volume(id) => {
                Ok(ContentSource::Volume(VolumeId::parse("volume_id", id)?))
            }
            types::ContentSource::Other(_) => Err(Invalid::of_plugin(
                "content_source is of a kind that this host does not know",
            )),
        }
    }
}
