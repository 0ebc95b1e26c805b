//! A checked copy request: one image, one tree, or several images as of one moment.

use crate::pool::place::Place;
use std::fmt;
use wasmount_core::fault::{Blame, Owner};
use wasmount_core::mounter::MountError;

/// Maximum number of copies in one group. 1,000: each keeps three descriptors open until all are made, of which a process has some thousands, and so
/// many file systems are frozen and copied within the time for which writers may be blocked.
const GROUP: usize = 1000;

/// A source and the target of its copy.
#[derive(Debug, Clone)]
pub(super) struct Pair {
    pub(super) source: Place,
    pub(super) target: Place,
}

/// The kind of the copy.
#[derive(Debug, Clone)]
pub(super) enum CopyRequest {
    Image(Pair),
    Directory(Pair),
    /// All or none, as of one moment; sorted by target.
    Images(Vec<Pair>),
}

impl Pair {
    pub(super) fn parse(pool: &str, source: &str, target: &str) -> Result<Self, MountError> {
        Ok(Self {
            source: Place::parse(pool, source)?,
            target: Place::parse(pool, target)?,
        })
    }
}

impl CopyRequest {
    /// From a plugin's call. The same group in another order is equal.
    pub(super) fn group(pool: &str, copies: &[(String, String)]) -> Result<Self, MountError> {
        if copies.len() > GROUP {
            return Err(MountError::Invalid {
                what: format!("a group of {} copies", copies.len()),
                reason: format!("it may have {GROUP} at most; make several groups"),
                // The request determines the number of members.
                blame: Blame::Of(Owner::Request),
            });
        }
        let parse = |(source, target): &(String, String)| Pair::parse(pool, source, target);
        let mut pairs: Vec<_> = copies.iter().map(parse).collect::<Result<_, _>>()?;
        pairs.sort_by(|one, other| one.target.path.as_str().cmp(other.target.path.as_str()));
        let mut neighbours = pairs.array_windows::<2>();
        match neighbours.find(|[one, next]| one.target == next.target) {
            Some([twice, _]) => Err(twice
                .target
                .invalid("it is the target of two copies of one group")),
            None => Ok(Self::Images(pairs)),
        }
    }

    pub(super) fn pairs(&self) -> &[Pair] {
        match self {
            Self::Image(pair) | Self::Directory(pair) => std::slice::from_ref(pair),
            Self::Images(pairs) => pairs,
        }
    }

    /// Whether both describe the same copy, whatever names drivers give the pool.
    pub(super) fn is(&self, other: &Self) -> bool {
        let is_same = |(one, other): (&Pair, &Pair)| {
            (&one.source.path, &one.target.path) == (&other.source.path, &other.target.path)
        };
        std::mem::discriminant(self) == std::mem::discriminant(other)
            && self.pairs().len() == other.pairs().len()
            && self.pairs().iter().zip(other.pairs()).all(is_same)
    }
}

impl fmt::Display for CopyRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pairs() {
            [pair] => write!(f, "the copy to {}", pair.target),
            [pair, others @ ..] => {
                write!(f, "the copy to {} and {} more", pair.target, others.len())
            }
            [] => f.write_str("the copy of nothing"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(copies: &[(&str, &str)]) -> Result<CopyRequest, MountError> {
        let owned = |(source, target): &(&str, &str)| ((*source).to_owned(), (*target).to_owned());
        CopyRequest::group("data", &copies.iter().map(owned).collect::<Vec<_>>())
    }

    #[test]
    fn a_group_is_equal_in_any_order() {
        let wanted = group(&[("a", "x"), ("b", "y")]).unwrap();
        for (other, is_same) in [
            (&[("b", "y"), ("a", "x")][..], true),
            (&[("a", "y"), ("b", "x")], false),
            (&[("a", "x")], false),
            (&[("a", "x"), ("b", "y"), ("c", "z")], false),
            (&[], false),
        ] {
            assert_eq!(wanted.is(&group(other).unwrap()), is_same, "{other:?}");
        }
        let elsewhere =
            CopyRequest::group("other name", &[("a".to_owned(), "x".to_owned())]).unwrap();
        assert!(elsewhere.is(&group(&[("a", "x")]).unwrap()));
        let pair = Pair::parse("data", "a", "x").unwrap();
        assert!(!CopyRequest::Image(pair.clone()).is(&CopyRequest::Directory(pair)));
    }

    #[test]
    fn two_copies_to_one_target_are_rejected() {
        assert!(matches!(
            group(&[("a", "x"), ("b", "y"), ("c", "x")]),
            Err(MountError::Invalid { .. })
        ));
        assert_eq!(group(&[("a", "x"), ("a", "y")]).unwrap().pairs().len(), 2);
    }

    #[test]
    fn a_group_has_an_end_so_that_it_leaves_descriptors_to_others() {
        let copies = |count| {
            let copies = (0..count).map(|i| (format!("a{i}"), format!("b{i}")));
            CopyRequest::group("data", &copies.collect::<Vec<_>>())
        };
        assert_eq!(copies(GROUP).unwrap().pairs().len(), GROUP);
        assert!(matches!(copies(GROUP + 1), Err(MountError::Invalid { .. })));
    }
}
