//! What is really sent. Our types read what Go writes, and Go reads what our types write, every message with every field set: nothing is lost,
//! and nothing arrives as a field that the reader does not know.

use crate::wire::filler::Filler;
use crate::wire::generated::TRIPS;
use crate::wire::official::{Official, name, packed, packed_json};
use crate::wire::{PACKAGE, ours};
use prost::Message;
use prost::encoding::{WireType, encode_key};
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor};
use prost_types::Any;
use serde_json::Value;
use std::collections::BTreeSet;
use xtask::tools::{Tool, WIRE_1_12, WIRE_1_13};

/// A field that CSI is far from having.
const UNKNOWN_FIELD: u32 = 100_000;

/// Through our generated type and back to bytes.
fn through_ours(name: &str, bytes: &[u8]) -> Vec<u8> {
    let trip = TRIPS.get(name);
    let trip = trip.unwrap_or_else(|| panic!("{name} is missing in generated.rs"));
    trip(bytes).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// What bytes mean, by our descriptors.
fn read(descriptor: &MessageDescriptor, bytes: &[u8]) -> Value {
    packed_json(&DynamicMessage::decode(descriptor.clone(), bytes).unwrap())
}

/// Messages of the package; entries of maps are none.
fn messages(pool: &DescriptorPool) -> impl Iterator<Item = MessageDescriptor> {
    pool.all_messages()
        .filter(|it| it.package_name() == PACKAGE && !it.is_map_entry())
}

/// Ours to Go and back.
fn goes_and_comes_back(tool: Tool) {
    let official = Official::of(tool);
    let version = official.descriptors();
    let filler = Filler::new(version.clone());
    let mut sent = Vec::new();
    for descriptor in messages(&ours()) {
        if version
            .get_message_by_name(descriptor.full_name())
            .is_none()
        {
            continue;
        }
        for variant in 0..filler.variants() {
            let message = filler.filled(descriptor.clone(), variant);
            let bytes = through_ours(descriptor.full_name(), &message.encode_to_vec());
            let json = packed_json(&message);
            assert_eq!(
                read(&descriptor, &bytes),
                json,
                "our own types lose something"
            );
            sent.push((descriptor.clone(), json, bytes));
        }
    }
    assert_eq!(sent.len(), messages(&version).count() * filler.variants());
    let envelopes: Vec<_> = sent
        .iter()
        .map(|(descriptor, _, bytes)| packed(descriptor.full_name(), bytes.clone()))
        .collect();
    let there = official.read(&envelopes);
    assert_eq!(there.len(), sent.len());
    for ((_, json, _), there) in sent.iter().zip(&there) {
        assert_eq!(json, there);
    }
    let back = official.write(&there);
    assert_eq!(back.len(), sent.len());
    for ((descriptor, json, _), envelope) in sent.iter().zip(&back) {
        let bytes = through_ours(name(envelope), &envelope.value);
        assert_eq!(&read(descriptor, &bytes), json);
    }
}

/// Go's to us and back.
fn comes_and_goes_back(tool: Tool) {
    let official = Official::of(tool);
    let sent = official.filled();
    let names: BTreeSet<_> = sent.iter().map(|it| name(it).to_owned()).collect();
    let version = official.descriptors();
    let known = messages(&version).map(|it| it.full_name().to_owned());
    assert_eq!(names, known.collect());
    let back: Vec<Any> = sent
        .iter()
        .map(|message| packed(name(message), through_ours(name(message), &message.value)))
        .collect();
    let (sent, back) = (official.read(&sent), official.read(&back));
    assert_eq!(sent.len(), back.len());
    for (sent, back) in sent.iter().zip(&back) {
        assert_eq!(sent, back);
    }
}

#[test]
fn official_go_module_1_12_reads_what_we_write() {
    goes_and_comes_back(WIRE_1_12);
}

#[test]
fn official_go_module_1_13_reads_what_we_write() {
    goes_and_comes_back(WIRE_1_13);
}

#[test]
fn official_go_module_1_12_writes_what_we_read() {
    comes_and_goes_back(WIRE_1_12);
}

#[test]
fn official_go_module_1_13_writes_what_we_read() {
    comes_and_goes_back(WIRE_1_13);
}

/// As a client of a later CSI sends it.
#[test]
fn an_unknown_field_is_ignored() {
    let filler = Filler::new(ours());
    for descriptor in messages(&ours()) {
        let message = filler.filled(descriptor.clone(), 1);
        let mut bytes = message.encode_to_vec();
        encode_key(UNKNOWN_FIELD, WireType::LengthDelimited, &mut bytes);
        bytes.extend(b"\x05later");
        let bytes = through_ours(descriptor.full_name(), &bytes);
        assert_eq!(read(&descriptor, &bytes), packed_json(&message));
    }
}

#[test]
fn what_is_cut_off_is_refused() {
    let filler = Filler::new(ours());
    for descriptor in messages(&ours()) {
        let bytes = filler.filled(descriptor.clone(), 0).encode_to_vec();
        if let Some((_, cut)) = bytes.split_last() {
            let trip = TRIPS[descriptor.full_name()];
            assert!(trip(cut).is_err(), "{}", descriptor.full_name());
        }
    }
}
