//! The identities of a namespace, as the storage lists them: Namespace Identification Descriptors (NVM Express Base Specification 2.0, 5.17.2.3).

use uuid::Uuid;

/// Bytes before the identifier: its type, its length, and two that are reserved.
const HEAD: usize = 4;
/// The types of identifiers that are 16 bytes: NGUID and UUID.
const TYPES: [u8; 2] = [0x02, 0x03];

/// Whether one of the descriptors is this NGUID or UUID.
pub(super) fn names(descriptors: &[u8], identity: Uuid) -> bool {
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
    use super::*;

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
