//! Valid and invalid requests, message by message. `anything` passes arbitrary bytes to every parser.

mod anything;
mod controller;
mod fields;
mod health;
mod node;
mod snapshots;

use super::Parsed;
use crate::error::Error;
use crate::page_token::PageTokens;
use crate::wire::csi::v1 as wire;
use std::collections::BTreeMap;
use std::fmt::Debug;
use wasmount_core::code::Code;
use wasmount_core::names::DriverName;
use wasmount_core::rpc::Rpc;
use wire::volume_capability::access_mode::Mode;
use wire::volume_capability::{AccessMode, AccessType, BlockVolume, MountVolume};

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

/// The tokens of such a list of a driver.
fn tokens(rpc: Rpc) -> PageTokens {
    PageTokens::of(&DriverName::parse("a.example.com").unwrap(), rpc)
}

fn mount_capability() -> wire::VolumeCapability {
    capability(
        Some(AccessType::Mount(MountVolume::default())),
        Mode::SingleNodeWriter.into(),
    )
}

fn capability(access_type: Option<AccessType>, mode: i32) -> wire::VolumeCapability {
    wire::VolumeCapability {
        access_type,
        access_mode: Some(AccessMode { mode }),
    }
}

fn block_capability(mode: i32) -> wire::VolumeCapability {
    capability(Some(AccessType::Block(BlockVolume {})), mode)
}

/// The message of a rejected request; the code is always INVALID_ARGUMENT.
#[track_caller]
fn refusal<T: Debug>(parsed: super::Result<T>) -> String {
    let error = parsed.unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument, "{error}");
    error.to_string()
}

#[track_caller]
fn taken<T>(parsed: Result<Parsed<T>, Error>) -> T {
    match parsed {
        Ok(parsed) => parsed.arguments,
        Err(error) => panic!("refused: {error}"),
    }
}
