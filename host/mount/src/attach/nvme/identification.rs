//! The identities of a namespace, as the storage lists them: Namespace Identification Descriptors (NVM Express Base Specification 2.0, 5.17.2.3).

use super::failure::Missing;
use super::subsystem::Subsystem;
use rustix::io::Errno;
use uuid::Uuid;
use wasmount_sys::nvme::IDENTIFY_BYTES;

/// Bytes before the identifier: its type, its length, and two that are reserved.
const HEAD: usize = 4;
/// The types of identifiers that are 16 bytes: NGUID and UUID.
const TYPES: [u8; 2] = [0x02, 0x03];

/// Whether a namespace can be used: enough paths lead to it, and the storage system says on each that it is the one. `ask`: for the descriptors of a
/// namespace by its number, by a controller.
pub(super) fn verify(
    subsystem: &Subsystem,
    identity: Uuid,
    minimum_paths: usize,
    ask: impl Fn(&str, u32) -> Result<Box<[u8; IDENTIFY_BYTES]>, Errno>,
) -> Result<(), Missing> {
    let (name, found) = subsystem.choose(identity, minimum_paths)?;
    for (controller, path) in subsystem.paths_to(name) {
        let at = path.at();
        match ask(controller, found.id) {
            Ok(told) if names(told.as_slice(), identity) => {}
            Ok(_) => return Err(Missing::Replaced { id: found.id, at }),
            Err(errno) => return Err(Missing::Silent { at, errno }),
        }
    }
    Ok(())
}

/// Whether one of the descriptors is this NGUID or UUID.
fn names(descriptors: &[u8], identity: Uuid) -> bool {
    each(descriptors).any(|found| found == identity)
}

/// All NGUIDs and UUIDs. A descriptor that does not fit ends the list, as one of length 0 does.
fn each(descriptors: &[u8]) -> impl Iterator<Item = Uuid> {
    let mut rest = descriptors;
    let all = std::iter::from_fn(move || {
        let (&kind, &length) = (rest.first()?, rest.get(1)?);
        let identifier = rest.get(HEAD..)?.get(..usize::from(length))?;
        if identifier.is_empty() {
            return None;
        }
        rest = rest.get(HEAD + identifier.len()..)?;
        Some((kind, identifier))
    });
    let wanted = all.filter(|(kind, _)| TYPES.contains(kind));
    wanted.filter_map(|(_, identifier)| Uuid::from_slice(identifier).ok())
}

#[cfg(test)]
mod tests {
    use super::super::subsystem::{Controller, Namespace};
    use super::*;
    use crate::block::DeviceNumber;

    const UUID: Uuid = Uuid::from_u128(0x11111111_2222_4333_8444_555555555555);
    const NGUID: Uuid = Uuid::from_u128(0x00253858_0000_0000_0000_000000000001);

    fn list(descriptors: &[(u8, &[u8])]) -> Vec<u8> {
        let mut list = Vec::new();
        for (kind, identifier) in descriptors {
            list.extend([*kind, identifier.len() as u8, 0, 0]);
            list.extend(*identifier);
        }
        list.resize(64, 0);
        list
    }

    /// What a storage system tells of a namespace.
    fn told(identity: Uuid) -> Result<Box<[u8; IDENTIFY_BYTES]>, Errno> {
        let mut whole = Box::new([0; IDENTIFY_BYTES]);
        let list = list(&[(3, identity.as_bytes())]);
        whole[..list.len()].copy_from_slice(&list);
        Ok(whole)
    }

    /// A namespace over two controllers in these states.
    fn two_paths(states: [&str; 2]) -> Subsystem {
        let controllers = (0..).zip(states).map(|(number, state)| {
            let controller = Controller {
                address: Some(([10, 1, 2, number], 4420).into()),
                state: state.to_owned(),
                paths: [("nvme0n1".to_owned(), Some("optimized".to_owned()))].into(),
            };
            (format!("nvme{number}"), controller)
        });
        let namespace = Namespace {
            number: DeviceNumber {
                major: 259,
                minor: 0,
            },
            id: 7,
            identities: vec![UUID],
        };
        Subsystem {
            controllers: controllers.collect(),
            namespaces: [("nvme0n1".to_owned(), namespace)].into(),
        }
    }

    #[test]
    fn a_namespace_is_used_if_each_live_path_tells_it() {
        let asked = std::cell::RefCell::new(Vec::new());
        let ask = |controller: &str, id| {
            asked.borrow_mut().push((controller.to_owned(), id));
            told(UUID)
        };
        let both = two_paths(["live", "live"]);
        assert_eq!(verify(&both, UUID, 2, ask), Ok(()));
        let expected = ["nvme0", "nvme1"].map(|it| (it.to_owned(), 7));
        assert_eq!(asked.take(), expected);
        // One that is lost cannot be asked.
        let one = two_paths(["connecting", "live"]);
        assert_eq!(verify(&one, UUID, 1, ask), Ok(()));
        assert_eq!(asked.take(), [("nvme1".to_owned(), 7)]);
    }

    #[test]
    fn a_namespace_that_one_path_tells_otherwise_is_replaced() {
        let replaced = |controller: &str, _| match controller {
            "nvme0" => told(UUID),
            _ => told(NGUID),
        };
        let both = two_paths(["live", "live"]);
        let at = "10.1.2.1:4420".to_owned();
        let expected = Missing::Replaced { id: 7, at };
        assert_eq!(verify(&both, UUID, 1, replaced), Err(expected));
    }

    #[test]
    fn a_path_that_tells_nothing_is_named_with_its_reason() {
        let both = two_paths(["live", "live"]);
        let silent = verify(&both, UUID, 1, |_, _| Err(Errno::INTR));
        let at = "10.1.2.0:4420".to_owned();
        let errno = Errno::INTR;
        assert_eq!(silent, Err(Missing::Silent { at, errno }));
    }

    #[test]
    fn nobody_is_asked_before_enough_paths_lead_there() {
        let nobody = |_: &str, _| -> Result<_, _> { panic!("asked") };
        let one = two_paths(["connecting", "live"]);
        let few = verify(&one, UUID, 2, nobody).unwrap_err();
        assert_eq!(
            few,
            Missing::FewPaths {
                live: 1,
                minimum: 2,
                others: " (others: 10.1.2.0:4420 connecting, optimized)".to_owned(),
            }
        );
        let other = verify(&one, NGUID, 1, nobody).unwrap_err();
        let controllers = "10.1.2.0:4420 connecting; 10.1.2.1:4420 live".to_owned();
        assert_eq!(other, Missing::NoNamespace { controllers });
        let none = verify(&Subsystem::default(), UUID, 1, nobody);
        assert_eq!(none, Err(Missing::NoController));
    }

    #[test]
    fn a_namespace_is_named_by_nguid_and_by_uuid() {
        let list = list(&[
            (1, &[7; 8]),
            (2, NGUID.as_bytes()),
            (3, UUID.as_bytes()),
            (4, &[0]),
        ]);
        assert!(names(&list, UUID) && names(&list, NGUID));
    }

    #[test]
    fn another_or_a_damaged_identity_names_nothing() {
        let other = Uuid::from_u128(1);
        assert!(!names(&list(&[(3, other.as_bytes())]), UUID));
        // Of another type.
        assert!(!names(&list(&[(5, UUID.as_bytes())]), UUID));
        assert!(!names(&list(&[(3, &UUID.as_bytes()[..8])]), UUID));
        // After the end.
        assert!(!names(&list(&[(1, &[]), (3, UUID.as_bytes())]), UUID));
        let whole = list(&[(3, UUID.as_bytes())]);
        for length in 0..HEAD + 16 {
            assert!(!names(&whole[..length], UUID), "{length}");
        }
        assert!(names(&whole[..HEAD + 16], UUID));
    }
}
