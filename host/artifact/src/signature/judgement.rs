//! Whether the signatures suffice: checks the keys that a document names against the signatures that are found, one place after the other.
//!
//! Only the best result of each key is kept: broken data and signatures of other keys, however many, do not hide what follows.

use super::SIGNATURES_MAX;
use super::evidence::{Evidence, Finding, Subject, Unreadable};
use super::policy::{NamedKey, SignatureError, SignerKeys};
use crate::text::is_control;

/// Most remarks in a rejection, and the longest, in characters: the rejection goes into logs and Events, and remarks quote untrusted text.
const REMARKS: usize = 4;
const REMARK_CHARACTERS: usize = 300;

/// What was found in one place, valid or not, in the order in which it was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Gathered {
    evidence: Vec<Evidence>,
    remarks: Remarks,
}

/// Data that was found and is not evidence.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Remarks {
    /// The first remarks.
    first: Vec<String>,
    /// The number of all remarks.
    count: usize,
    /// How many items were skipped.
    pub(crate) left_out: usize,
}

impl Gathered {
    /// Adds what was found at `place`, which remarks name.
    pub fn add(&mut self, place: &str, found: Result<Evidence, Unreadable>) {
        match found {
            Err(unreadable) => self.remarks.add(&format!("{place} {unreadable}")),
            Ok(_) if self.evidence.len() >= SIGNATURES_MAX => self.remarks.left_out += 1,
            Ok(evidence) => self.evidence.push(evidence),
        }
    }

    /// Whether nothing at all was found.
    pub fn is_empty(&self) -> bool {
        self.evidence.is_empty() && self.remarks.count == 0
    }

    /// The evidence that was found.
    pub fn evidence(&self) -> &[Evidence] {
        &self.evidence
    }

    /// Messages about what is not evidence; only the first ones if there are many.
    pub fn remarks(&self) -> Vec<String> {
        self.remarks.messages()
    }
}

impl Remarks {
    /// Adds a remark.
    pub(crate) fn add(&mut self, remark: &str) {
        self.count += 1;
        if self.first.len() < REMARKS {
            self.first.push(quoted(remark));
        }
    }

    /// Appends the remarks of another place.
    fn append(&mut self, others: &Self) {
        let remaining = REMARKS.saturating_sub(self.first.len());
        self.first
            .extend(others.first.iter().take(remaining).cloned());
        self.count += others.count;
        self.left_out += others.left_out;
    }

    /// The first remarks, and how many more there are.
    pub(crate) fn messages(&self) -> Vec<String> {
        let mut messages = self.first.clone();
        match self.count.saturating_sub(messages.len()) {
            0 => {}
            more => messages.push(format!("{more} more of this kind")),
        }
        if self.left_out > 0 {
            messages.push(format!(
                "{} more were not looked at: there are too many",
                self.left_out
            ));
        }
        messages
    }
}

/// Untrusted text, cut and without control characters.
fn quoted(text: &str) -> String {
    let printable = text.chars().filter(|&c| !is_control(c));
    printable.take(REMARK_CHARACTERS).collect()
}

/// The results of the named keys so far.
#[derive(Debug, Clone)]
pub struct Judgement<'a> {
    keys: &'a SignerKeys,
    subject: Subject<'a>,
    /// The best finding of each key, in the order of [`SignerKeys::named`].
    findings: Vec<Finding>,
    /// How many signatures were examined.
    examined: usize,
    /// On what proves nothing: data that is not evidence, or cannot be read.
    pub(crate) remarks: Remarks,
}

impl<'a> Judgement<'a> {
    /// A judgement without evidence yet.
    pub fn new(keys: &'a SignerKeys, subject: Subject<'a>) -> Self {
        Self {
            findings: vec![Finding::NotTheirs; keys.named().count()],
            keys,
            subject,
            examined: 0,
            remarks: Remarks::default(),
        }
    }

    /// Checks this evidence with each key.
    pub fn take_in(&mut self, gathered: &Gathered) {
        self.remarks.append(&gathered.remarks);
        self.examined += gathered.evidence.len();
        for evidence in &gathered.evidence {
            for (key, best) in self.keys.named().zip(&mut self.findings) {
                if *best == Finding::Signed {
                    continue;
                }
                match evidence.examine(&key.key, &self.subject) {
                    Finding::NotTheirs => {}
                    other => *best = other,
                }
            }
        }
    }

    /// The named keys that signed it, or why they do not suffice.
    pub fn verdict(&self) -> Result<Vec<String>, SignatureError> {
        let keys = self.keys;
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let digest = || self.subject.digest().to_owned();
        let found = self.examined + self.remarks.count;
        if found == 0 {
            return Err(SignatureError::Unsigned {
                digest: digest(),
                wanted: keys.describe(),
            });
        }
        let findings: Vec<_> = keys.named().zip(&self.findings).collect();
        let (any, all) = findings.split_at(keys.any_of.len());
        let signed = |(_, finding): &&(&NamedKey, &Finding)| **finding == Finding::Signed;

        let mut signers: Vec<String> = Vec::new();
        for (key, _) in findings.iter().filter(signed) {
            if !signers.iter().any(|it| it == key.name()) {
                signers.push(key.name().to_owned());
            }
        }
        let any_lacks = !any.is_empty() && !any.iter().any(|it| signed(&it));
        let missing: Vec<_> = all.iter().filter(|it| !signed(it)).collect();
        if !any_lacks && missing.is_empty() {
            return Ok(signers);
        }

        // The most specific problem: a valid signature of a named key, over something else.
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
        let remarks = match self.remarks.messages() {
            none if none.is_empty() => String::new(),
            some => format!(" ({})", some.join("; ")),
        };
        if signers.is_empty() {
            return Err(SignatureError::ByNobodyNamed {
                digest: digest(),
                found,
                wanted: keys.describe(),
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

/// The named keys that signed this, or why they do not suffice. If no key is named, nothing is required.
pub fn check(
    keys: &SignerKeys,
    subject: &Subject<'_>,
    gathered: &Gathered,
) -> Result<Vec<String>, SignatureError> {
    let mut judgement = Judgement::new(keys, subject.clone());
    judgement.take_in(gathered);
    judgement.verdict()
}

#[cfg(test)]
mod tests;
