//! What was found that may be a signature: what can be examined, and in words what cannot.
//!
//! Anybody who may write to a registry can put rubbish beside a good signature. So rubbish is a remark, and takes no place from what can be examined.

use super::SIGNATURES_MAX;
use super::evidence::{Evidence, Unreadable};
use crate::text::is_control;

/// Most remarks that a refusal has, and the longest, in characters: it goes into logs and Events, and strangers' words are in it.
const REMARKS: usize = 4;
const REMARK_CHARACTERS: usize = 300;

/// What was found in one place, good or not, in the order in which it was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Gathered {
    evidence: Vec<Evidence>,
    remarks: Remarks,
}

/// What was found and is no evidence.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Remarks {
    /// The first ones.
    first: Vec<String>,
    /// All of them.
    count: usize,
    /// What nobody has looked at.
    left_out: usize,
}

impl Gathered {
    /// Adds what was found at `place`, which names it in remarks.
    pub fn add(&mut self, place: &str, found: Result<Evidence, Unreadable>) {
        match found {
            Err(unreadable) => self.remarks.add(&format!("{place} {unreadable}")),
            Ok(_) if self.evidence.len() >= SIGNATURES_MAX => self.remarks.leave_out(1),
            Ok(evidence) => self.evidence.push(evidence),
        }
    }

    /// Whether nothing at all was found.
    pub fn is_empty(&self) -> bool {
        self.evidence.is_empty() && self.remarks.count == 0
    }

    /// What can be examined.
    pub fn evidence(&self) -> &[Evidence] {
        &self.evidence
    }

    /// What was found besides, in words: the first ones, of many.
    pub fn remarks(&self) -> Vec<String> {
        self.remarks.words()
    }

    pub(super) fn apart(&self) -> (&[Evidence], &Remarks) {
        (&self.evidence, &self.remarks)
    }
}

impl Remarks {
    /// One more.
    pub(super) fn add(&mut self, remark: &str) {
        self.count += 1;
        if self.first.len() < REMARKS {
            self.first.push(quoted(remark));
        }
    }

    /// So much was not looked at.
    pub(super) fn leave_out(&mut self, count: usize) {
        self.left_out += count;
    }

    /// Those of another place behind these.
    pub(super) fn append(&mut self, others: &Self) {
        let room = REMARKS.saturating_sub(self.first.len());
        self.first.extend(others.first.iter().take(room).cloned());
        self.count += others.count;
        self.left_out += others.left_out;
    }

    /// How many things were seen.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    pub(super) fn words(&self) -> Vec<String> {
        let mut words = self.first.clone();
        match self.count.saturating_sub(words.len()) {
            0 => {}
            more => words.push(format!("{more} more of this kind")),
        }
        if self.left_out > 0 {
            words.push(format!(
                "{} more were not looked at: there are too many",
                self.left_out
            ));
        }
        words
    }
}

/// Words that may be a stranger's, cut and without control characters.
fn quoted(text: &str) -> String {
    let printable = text.chars().filter(|&c| !is_control(c));
    printable.take(REMARK_CHARACTERS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some() -> Evidence {
        Evidence::of_subject(Vec::new())
    }

    #[test]
    fn words_of_strangers_are_few_and_harmless() {
        let mut gathered = Gathered::default();
        for _ in 0..REMARKS + 2 {
            let words = format!("\x1b[2J\n{}", "x".repeat(10_000));
            gathered.add("y", Err(Unreadable::Payload(words)));
        }
        let remarks = gathered.remarks();
        assert_eq!(remarks.len(), REMARKS + 1);
        assert_eq!(remarks[REMARKS], "2 more of this kind");
        assert!(remarks[0].starts_with("y is no payload of cosign: [2Jxxx"));
        assert_eq!(remarks[0].chars().count(), REMARK_CHARACTERS);
    }

    #[test]
    fn rubbish_takes_no_place_from_what_can_be_examined() {
        let mut gathered = Gathered::default();
        assert!(gathered.is_empty());
        for _ in 0..SIGNATURES_MAX * 2 {
            gathered.add("x.sig", Err(Unreadable::NotASignature));
        }
        gathered.add("x.sig", Ok(some()));
        assert_eq!(gathered.evidence().len(), 1);
        assert_eq!(gathered.remarks()[REMARKS], "60 more of this kind");
    }

    #[test]
    fn only_so_many_are_looked_at_and_the_rest_is_said() {
        let mut gathered = Gathered::default();
        for _ in 0..SIGNATURES_MAX + 3 {
            gathered.add("x.sig", Ok(some()));
        }
        assert_eq!(gathered.evidence().len(), SIGNATURES_MAX);
        let said = ["3 more were not looked at: there are too many"];
        assert_eq!(gathered.remarks(), said);
    }

    #[test]
    fn remarks_of_several_places_are_counted_together() {
        let mut all = Remarks::default();
        for place in ["a", "b", "c"] {
            let mut remarks = Remarks::default();
            for number in 0..2 {
                remarks.add(&format!("{place}{number}"));
            }
            remarks.leave_out(1);
            all.append(&remarks);
        }
        assert_eq!(all.count(), 6);
        let said = ["a0", "a1", "b0", "b1", "2 more of this kind"];
        assert_eq!(all.words()[..REMARKS + 1], said);
        assert!(all.words()[REMARKS + 1].starts_with("3 more were not looked at"));
    }
}
