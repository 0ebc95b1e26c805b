//! Rejected candidates as they are remembered: which, when, how often, why.

use serde::{Deserialize, Serialize};
use wasmount_core::status::{PastRefusal, RefusedVersion};

/// Different rejections that are remembered. 20: those of a week that an administrator may look up; each is some 500 bytes.
const REMEMBERED: usize = 20;
/// Longest reason, in bytes: a plugin writes a part of some reasons.
const REASON_BYTES: usize = 500;

/// All that are remembered.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PastRefusals {
    /// The most recent rejection is last.
    all: Vec<PastRefusal>,
}

impl PastRefusals {
    /// Adds a rejection; a repeated one is counted.
    pub(crate) fn note(&mut self, refused: RefusedVersion, origin: String) {
        let mut next = PastRefusal {
            digest: refused.digest,
            origin,
            kind: refused.kind,
            reason: first_line(&refused.reason),
            first: refused.at,
            last: refused.at,
            times: 1,
        };
        if let Some(index) = self.all.iter().position(|it| is_same(it, &next)) {
            let before = self.all.remove(index);
            next.first = before.first;
            next.times = before.times.saturating_add(1);
        }
        self.all.push(next);
        let surplus = self.all.len().saturating_sub(REMEMBERED);
        self.all.drain(..surplus);
    }

    /// The newest first.
    pub(crate) fn newest_first(&self) -> Vec<PastRefusal> {
        self.all.iter().rev().cloned().collect()
    }
}

fn is_same(one: &PastRefusal, other: &PastRefusal) -> bool {
    (&one.digest, &one.origin, one.kind, &one.reason)
        == (&other.digest, &other.origin, other.kind, &other.reason)
}

fn first_line(reason: &str) -> String {
    let line = reason.lines().next().unwrap_or_default();
    let end = line.floor_char_boundary(REASON_BYTES);
    line.get(..end).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;
    use wasmount_core::status::RefusalKind;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn refused(digest: &str, second: i64) -> RefusedVersion {
        RefusedVersion {
            by_document: true,
            digest: Some(digest.to_owned()),
            kind: RefusalKind::Imports,
            reason: "it imports too much\nand more".to_owned(),
            at: at(second),
        }
    }

    fn noted(refusals: &[(&str, i64)]) -> Vec<PastRefusal> {
        let mut all = PastRefusals::default();
        for (digest, second) in refusals {
            all.note(refused(digest, *second), "/a.wasm".to_owned());
        }
        all.newest_first()
    }

    #[test]
    fn the_same_is_counted_and_comes_first_again() {
        let all = noted(&[("a", 1), ("b", 2), ("a", 3)]);
        let counts: Vec<_> = all
            .iter()
            .map(|it| (it.digest.as_deref().unwrap(), it.times))
            .collect();
        assert_eq!(counts, [("a", 2), ("b", 1)]);
        assert_eq!((all[0].first, all[0].last), (at(1), at(3)));
        assert_eq!(all[0].reason, "it imports too much");
        assert_eq!(all[0].kind, RefusalKind::Imports);
    }

    #[test]
    fn the_oldest_are_forgotten() {
        let digests: Vec<String> = (0..50).map(|number| number.to_string()).collect();
        let refusals: Vec<_> = digests.iter().map(|digest| (digest.as_str(), 1)).collect();
        let all = noted(&refusals);
        assert_eq!(all.len(), REMEMBERED);
        assert_eq!(all[0].digest.as_deref(), Some("49"));
    }

    #[test]
    fn a_long_reason_is_cut_between_two_characters() {
        let long = "\u{e4}".repeat(REASON_BYTES);
        assert_eq!(first_line(&format!("x{long}")).len(), REASON_BYTES - 1);
    }
}
