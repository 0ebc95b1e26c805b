//! Whether what is there suffices: the keys that a document names against the signatures that are found, one place after the other.
//!
//! Of what was examined only the best word of each key is kept: however much rubbish there is, and however many signatures of strangers, none of it
//! hides what comes after.

use super::SIGNATURES_MAX;
use super::evidence::{Evidence, Finding, Subject, Unreadable};
use super::policy::{NamedKey, SignatureError, SignerKeys};
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
struct Remarks {
    /// The first ones.
    first: Vec<String>,
    /// All of them.
    count: usize,
    /// How many things were not looked at.
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
}

impl Remarks {
    /// One more.
    fn add(&mut self, remark: &str) {
        self.count += 1;
        if self.first.len() < REMARKS {
            self.first.push(quoted(remark));
        }
    }

    /// So much was not looked at.
    fn leave_out(&mut self, count: usize) {
        self.left_out += count;
    }

    /// Those of another place behind these.
    fn append(&mut self, others: &Self) {
        let room = REMARKS.saturating_sub(self.first.len());
        self.first.extend(others.first.iter().take(room).cloned());
        self.count += others.count;
        self.left_out += others.left_out;
    }

    /// How many things were seen.
    fn count(&self) -> usize {
        self.count
    }

    fn words(&self) -> Vec<String> {
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

/// What the named keys have said so far.
#[derive(Debug, Clone)]
pub struct Judgement<'a> {
    keys: &'a SignerKeys,
    subject: Subject<'a>,
    any: Vec<Finding>,
    all: Vec<Finding>,
    /// How many signatures were examined.
    examined: usize,
    remarks: Remarks,
}

impl<'a> Judgement<'a> {
    /// Nothing was examined yet.
    pub fn new(keys: &'a SignerKeys, subject: Subject<'a>) -> Self {
        let nothing = |keys: &[NamedKey]| vec![Finding::NotTheirs; keys.len()];
        Self {
            any: nothing(&keys.any_of),
            all: nothing(&keys.all_of),
            keys,
            subject,
            examined: 0,
            remarks: Remarks::default(),
        }
    }

    /// Asks each key what it says of these.
    pub fn take_in(&mut self, gathered: &Gathered) {
        self.remarks.append(&gathered.remarks);
        self.examined += gathered.evidence.len();
        for one in &gathered.evidence {
            better(&self.keys.any_of, &mut self.any, one, &self.subject);
            better(&self.keys.all_of, &mut self.all, one, &self.subject);
        }
    }

    /// A remark on something that is there, and of which nothing can be known.
    pub fn pass_over(&mut self, remark: &str) {
        self.remarks.add(remark);
    }

    /// So many things were not looked at.
    pub fn leave_out(&mut self, count: usize) {
        self.remarks.leave_out(count);
    }

    /// What was found and proves nothing, in words: the first ones, of many.
    pub fn remarks(&self) -> Vec<String> {
        self.remarks.words()
    }

    /// By which of the named keys it is signed, or why that does not suffice.
    pub fn verdict(&self) -> Result<Vec<String>, SignatureError> {
        let keys = self.keys;
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let digest = || self.subject.digest().to_owned();
        let found = self.examined + self.remarks.count();
        if found == 0 {
            return Err(SignatureError::Unsigned {
                digest: digest(),
                wanted: keys.wanted(),
            });
        }
        let any: Vec<_> = keys.any_of.iter().zip(&self.any).collect();
        let all: Vec<_> = keys.all_of.iter().zip(&self.all).collect();
        let signed = |(_, finding): &&(&NamedKey, &Finding)| **finding == Finding::Signed;

        let mut signers: Vec<String> = Vec::new();
        for (key, _) in any.iter().chain(&all).filter(signed) {
            if !signers.iter().any(|it| it == key.name()) {
                signers.push(key.name().to_owned());
            }
        }
        let any_lacks = !any.is_empty() && !any.iter().any(|it| signed(&it));
        let missing: Vec<_> = all.iter().filter(|it| !signed(it)).collect();
        if !any_lacks && missing.is_empty() {
            return Ok(signers);
        }

        // The clearest of what is wrong: a right signature of the right key, over something else.
        let unhelpful = any
            .iter()
            .filter(|_| any_lacks)
            .chain(missing.iter().copied());
        for (key, finding) in unhelpful {
            if let Finding::Another(signed) = finding {
                return Err(SignatureError::AnotherDigest {
                    digest: digest(),
                    signer: key.described(),
                    signed: signed.clone(),
                });
            }
        }
        let remarks = match self.remarks() {
            none if none.is_empty() => String::new(),
            some => format!(" ({})", some.join("; ")),
        };
        if signers.is_empty() {
            return Err(SignatureError::ByNobodyNamed {
                digest: digest(),
                found,
                wanted: keys.wanted(),
                remarks,
            });
        }
        let mut lacking: Vec<_> = missing.iter().map(|(key, _)| key.described()).collect();
        if any_lacks {
            let any: Vec<_> = keys.any_of.iter().map(NamedKey::described).collect();
            lacking.push(any.join(" or "));
        }
        Err(SignatureError::Missing {
            digest: digest(),
            missing: lacking.join(" and "),
            remarks,
        })
    }
}

/// By which of the named keys this is signed, or why that does not suffice. Without a named key nothing is required.
pub fn check(
    keys: &SignerKeys,
    subject: &Subject<'_>,
    gathered: &Gathered,
) -> Result<Vec<String>, SignatureError> {
    let mut judgement = Judgement::new(keys, subject.clone());
    judgement.take_in(gathered);
    judgement.verdict()
}

/// Keeps the best that each key has said.
fn better(keys: &[NamedKey], best: &mut [Finding], evidence: &Evidence, subject: &Subject<'_>) {
    for (key, best) in keys.iter().zip(best) {
        if *best == Finding::Signed {
            continue;
        }
        match evidence.examine(key.key(), subject) {
            Finding::NotTheirs => {}
            other => *best = other,
        }
    }
}

#[cfg(test)]
mod tests;
