//! The table against a model that compares every pair of held sets. These tests are not in `table.rs`, since the model test of the lock compiles that
//! file too.

use super::table::*;
use crate::names::{NodePath, RequestedName, VolumeId};
use proptest::prelude::*;

fn volume(n: u8) -> ClaimKey {
    ClaimKey::Volume(VolumeId::parse("volume_id", format!("v{n}")).unwrap())
}

fn target(n: u8) -> ClaimKey {
    ClaimKey::Target(NodePath::parse("target_path", format!("/t{n}")).unwrap())
}

/// Few keys, so that sets often overlap.
fn claim() -> impl Strategy<Value = Claim> {
    let key = prop_oneof![(0..3u8).prop_map(volume), (0..2u8).prop_map(target)];
    let mode = prop_oneof![Just(Mode::Shared), Just(Mode::Exclusive)];
    (key, mode)
}

#[derive(Debug, Clone)]
enum Step {
    Acquire(Vec<Claim>),
    Release(prop::sample::Index),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => prop::collection::vec(claim(), 0..4).prop_map(Step::Acquire),
        2 => any::<prop::sample::Index>().prop_map(Step::Release),
    ]
}

fn conflict(one: &[Claim], other: &[Claim]) -> bool {
    one.iter().any(|(key, mode)| {
        other
            .iter()
            .any(|(other, held)| key == other && (*mode, *held) != (Mode::Shared, Mode::Shared))
    })
}

proptest! {
    #[test]
    fn a_set_is_granted_exactly_when_it_conflicts_with_no_held_one(steps in prop::collection::vec(step(), 0..40)) {
        let mut table = Table::default();
        let mut held: Vec<(Vec<Claim>, Token)> = Vec::new();
        for step in steps {
            match step {
                Step::Acquire(set) => {
                    let before = format!("{table:?}");
                    let free = !held.iter().any(|(other, _)| conflict(&set, other));
                    match table.acquire(set.clone()) {
                        Ok(token) => {
                            prop_assert!(free);
                            held.push((set, token));
                        }
                        Err(refused) => {
                            prop_assert!(!free);
                            prop_assert!(set.iter().any(|(key, _)| *key == refused));
                            prop_assert_eq!(format!("{table:?}"), before, "all or nothing");
                        }
                    }
                }
                Step::Release(index) if !held.is_empty() => {
                    let (_, token) = held.remove(index.index(held.len()));
                    table.release(&token);
                }
                Step::Release(_) => {}
            }
        }
        for (_, token) in held {
            table.release(&token);
        }
        prop_assert_eq!(format!("{table:?}"), format!("{:?}", Table::default()), "release frees all");
    }
}

#[test]
fn of_a_key_that_a_set_names_twice_the_stronger_claim_counts() {
    let mut table = Table::default();
    let twice = [(volume(1), Mode::Exclusive), (volume(1), Mode::Shared)];
    let token = table.acquire(twice).unwrap();
    let refused = table.acquire([(volume(1), Mode::Shared)]).unwrap_err();
    assert_eq!(refused, volume(1));
    table.release(&token);
    assert!(table.acquire([(volume(1), Mode::Exclusive)]).is_ok());
}

#[test]
fn names_of_different_kinds_are_different_things() {
    let name = |kind| ClaimKey::Name(kind, RequestedName::parse("name", "a").unwrap());
    let mut table = Table::default();
    for kind in [Kind::Volume, Kind::Snapshot, Kind::Group] {
        assert!(table.acquire([(name(kind), Mode::Exclusive)]).is_ok());
        assert!(table.acquire([(name(kind), Mode::Exclusive)]).is_err());
    }
}
