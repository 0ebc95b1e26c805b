//! Answers of the SnapshotMetadata service: one message of a stream from one page.

use super::signed;
use crate::wire::csi::v1 as wire;
use wasmount_core::snapshot::{BlockType, Extent, MetadataPage};

/// The parts that both streams have.
struct Portion {
    block_metadata_type: i32,
    volume_capacity_bytes: i64,
    block_metadata: Vec<wire::BlockMetadata>,
}

pub(crate) fn allocated(page: MetadataPage) -> wire::GetMetadataAllocatedResponse {
    let Portion {
        block_metadata_type,
        volume_capacity_bytes,
        block_metadata,
    } = portion(page);
    wire::GetMetadataAllocatedResponse {
        block_metadata_type,
        volume_capacity_bytes,
        block_metadata,
    }
}

pub(crate) fn delta(page: MetadataPage) -> wire::GetMetadataDeltaResponse {
    let Portion {
        block_metadata_type,
        volume_capacity_bytes,
        block_metadata,
    } = portion(page);
    wire::GetMetadataDeltaResponse {
        block_metadata_type,
        volume_capacity_bytes,
        block_metadata,
    }
}

fn portion(page: MetadataPage) -> Portion {
    let MetadataPage {
        block_type,
        volume_capacity_bytes,
        extents,
        // The stream's own business.
        next_offset: _,
    } = page;
    let block_type = match block_type {
        BlockType::FixedLength => wire::BlockMetadataType::FixedLength,
        BlockType::VariableLength => wire::BlockMetadataType::VariableLength,
    };
    let extent = |Extent {
                      offset_bytes,
                      size_bytes,
                  }| wire::BlockMetadata {
        byte_offset: signed(offset_bytes),
        size_bytes: signed(size_bytes),
    };
    Portion {
        block_metadata_type: block_type.into(),
        volume_capacity_bytes: signed(volume_capacity_bytes),
        block_metadata: extents.into_iter().map(extent).collect(),
    }
}
