//! Every verdict, with keys that are generated for the tests.

use super::super::{PrivateKey, payload};
use super::*;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// The signed manifest, and one that is not signed.
const MANIFEST: &[u8] = b"{\"the\":\"manifest\"}";
const OTHER: &[u8] = b"{\"another\":\"manifest\"}";

/// Two signers and an unknown key.
struct People {
    ann: PrivateKey,
    bob: PrivateKey,
    eve: PrivateKey,
}

impl People {
    fn new() -> Self {
        let key = || PrivateKey::generate().unwrap();
        Self {
            ann: key(),
            bob: key(),
            eve: key(),
        }
    }

    fn named(&self, names: &[&str]) -> Vec<NamedKey> {
        let key = |name: &&str| match *name {
            "ann" => &self.ann,
            "bob" => &self.bob,
            _ => &self.eve,
        };
        let named = |name: &&str| NamedKey::new(*name, key(name).verifying_key());
        names.iter().map(named).collect()
    }
}

fn bare(key: &PrivateKey, bytes: &[u8]) -> Result<Evidence, Unreadable> {
    let encoded = STANDARD.encode(key.sign(bytes).unwrap());
    Evidence::from_signature_file(encoded.as_bytes())
}

fn simple(key: &PrivateKey, of: &[u8]) -> Result<Evidence, Unreadable> {
    let payload = payload("nas.example/csi", Subject::new(of).digest());
    let signature = STANDARD.encode(key.sign(&payload).unwrap());
    Evidence::from_simple_signing(&payload, &signature)
}

fn gathered(all: impl IntoIterator<Item = Result<Evidence, Unreadable>>) -> Gathered {
    let mut gathered = Gathered::default();
    for one in all {
        gathered.add("x.sig", one);
    }
    gathered
}

#[test]
fn any_of_wants_one_and_all_of_wants_each() {
    let people = People::new();
    let People { ann, bob, eve } = &people;
    // any-of, all-of, who signed, who is said to have.
    type Row<'a> = (
        &'a [&'a str],
        &'a [&'a str],
        Vec<&'a PrivateKey>,
        Option<&'a [&'a str]>,
    );
    let table: Vec<Row<'_>> = vec![
        (&[], &[], vec![], Some(&[])),
        (&[], &[], vec![eve], Some(&[])),
        (&["ann", "bob"], &[], vec![bob], Some(&["bob"])),
        (
            &["ann", "bob"],
            &[],
            vec![eve, ann, bob],
            Some(&["ann", "bob"]),
        ),
        (&["ann", "bob"], &[], vec![eve], None),
        (&["ann", "bob"], &[], vec![], None),
        (&[], &["ann", "bob"], vec![bob, ann], Some(&["ann", "bob"])),
        (&[], &["ann", "bob"], vec![ann, ann], None),
        (&["ann"], &["bob"], vec![ann, bob], Some(&["ann", "bob"])),
        (&["ann"], &["bob"], vec![ann], None),
        (&["ann"], &["bob"], vec![bob], None),
        (&["ann"], &["ann"], vec![ann], Some(&["ann"])),
    ];
    for (any_of, all_of, signed_by, expected) in table {
        let keys = SignerKeys::new(people.named(any_of), people.named(all_of));
        for form in [bare, simple] {
            let found = gathered(signed_by.iter().map(|key| form(key, MANIFEST)));
            let verdict = check(&keys, &Subject::new(MANIFEST), &found);
            let expected =
                expected.map(|names| names.iter().map(|&name| name.to_owned()).collect());
            assert_eq!(verdict.ok(), expected, "{any_of:?} {all_of:?}");
        }
    }
}

#[test]
fn rejections_name_the_cause_and_the_required_signer() {
    let people = People::new();
    let People { ann, bob, eve } = &people;
    let subject = Subject::new(MANIFEST);
    let rejection = |any_of: &[&str], all_of: &[&str], found: &Gathered| {
        let keys = SignerKeys::new(people.named(any_of), people.named(all_of));
        check(&keys, &subject, found).unwrap_err()
    };
    let described =
        |key: &PrivateKey, name: &str| format!("{name} ({})", key.verifying_key().fingerprint());
    let digest = subject.digest().to_owned();
    assert_eq!(
        rejection(&["ann", "bob"], &[], &Gathered::default()),
        SignatureError::Unsigned {
            digest: digest.clone(),
            wanted: format!("{} or {}", described(ann, "ann"), described(bob, "bob")),
        }
    );
    let strange = gathered([bare(eve, MANIFEST), Err(Unreadable::NotASignature)]);
    assert_eq!(
        rejection(&["ann"], &["bob"], &strange),
        SignatureError::ByNobodyNamed {
            digest: digest.clone(),
            found: 2,
            wanted: format!("{}, and {}", described(ann, "ann"), described(bob, "bob")),
            remarks: " (x.sig is no signature in base64; was it cut off?)".to_owned(),
        }
    );
    assert_eq!(
        rejection(&[], &["ann", "bob"], &gathered([simple(ann, MANIFEST)])),
        SignatureError::Missing {
            digest: digest.clone(),
            missing: described(bob, "bob"),
            remarks: String::new(),
        }
    );
    assert_eq!(
        rejection(&["bob"], &["ann"], &gathered([simple(ann, MANIFEST)])),
        SignatureError::Missing {
            digest: digest.clone(),
            missing: described(bob, "bob"),
            remarks: String::new(),
        }
    );
    assert_eq!(
        rejection(
            &["ann"],
            &[],
            &gathered([simple(ann, OTHER), simple(eve, MANIFEST)])
        ),
        SignatureError::AnotherDigest {
            digest,
            signer: described(ann, "ann"),
            signed: Subject::new(OTHER).digest().to_owned(),
        }
    );
}

#[test]
fn a_signature_of_another_manifest_is_ignored() {
    let people = People::new();
    let keys = SignerKeys::new(people.named(&["ann"]), Vec::new());
    let found = gathered([
        Err(Unreadable::NotASignature),
        simple(&people.ann, OTHER),
        simple(&people.eve, MANIFEST),
        simple(&people.ann, MANIFEST),
    ]);
    let verdict = check(&keys, &Subject::new(MANIFEST), &found);
    assert_eq!(verdict.unwrap(), ["ann"]);
}

#[test]
fn no_byte_of_payload_or_signature_can_change() {
    let people = People::new();
    let keys = SignerKeys::new(people.named(&["ann"]), Vec::new());
    let payload = payload("nas.example/csi", Subject::new(MANIFEST).digest());
    let signature = people.ann.sign(&payload).unwrap();
    let accepts = |payload: &[u8], signature: &[u8]| {
        let evidence = Evidence::from_simple_signing(payload, &STANDARD.encode(signature));
        check(&keys, &Subject::new(MANIFEST), &gathered([evidence])).is_ok()
    };
    assert!(accepts(&payload, &signature));
    for at in 0..payload.len() {
        let mut changed = payload.clone();
        changed[at] ^= 1;
        assert!(!accepts(&changed, &signature), "byte {at} of the payload");
    }
    for at in 0..signature.len() {
        let mut changed = signature.clone();
        changed[at] ^= 1;
        assert!(!accepts(&payload, &changed), "byte {at} of the signature");
    }
}

#[test]
fn signatures_of_strangers_however_many_hide_none() {
    let people = People::new();
    let keys = SignerKeys::new(people.named(&["ann"]), people.named(&["bob"]));
    let mut judgement = Judgement::new(&keys, Subject::new(MANIFEST));
    let strange = [
        simple(&people.eve, MANIFEST),
        // A signature of ann's that was copied here proves nothing, and hides nothing.
        simple(&people.ann, OTHER),
        Err(Unreadable::NotASignature),
    ];
    let strange = gathered(strange);
    for _ in 0..SIGNATURES_MAX {
        judgement.take_in(&strange);
    }
    assert!(judgement.verdict().is_err());
    judgement.take_in(&gathered([simple(&people.ann, MANIFEST)]));
    assert!(judgement.verdict().is_err());
    judgement.take_in(&gathered([simple(&people.bob, MANIFEST)]));
    assert_eq!(judgement.verdict().unwrap(), ["ann", "bob"]);
    judgement.take_in(&strange);
    assert_eq!(judgement.verdict().unwrap(), ["ann", "bob"]);
}

fn some() -> Evidence {
    Evidence::of_subject(vec![Vec::new()])
}

#[test]
fn foreign_text_is_short_and_escaped() {
    let mut gathered = Gathered::default();
    for _ in 0..REMARKS + 2 {
        let payload = format!("\x1b[2J\n{}", "x".repeat(10_000));
        gathered.add("y", Err(Unreadable::Payload(payload)));
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
    let expected = ["3 more were not looked at: there are too many"];
    assert_eq!(gathered.remarks(), expected);
}

#[test]
fn remarks_of_several_places_are_counted_together() {
    let mut all = Remarks::default();
    for place in ["a", "b", "c"] {
        let mut remarks = Remarks::default();
        for number in 0..2 {
            remarks.add(&format!("{place}{number}"));
        }
        remarks.left_out += 1;
        all.append(&remarks);
    }
    assert_eq!(all.count, 6);
    let expected = ["a0", "a1", "b0", "b1", "2 more of this kind"];
    assert_eq!(all.messages()[..REMARKS + 1], expected);
    assert!(all.messages()[REMARKS + 1].starts_with("3 more were not looked at"));
}
