//! Tests of the rules of recording.

use super::*;
use std::sync::Arc;
use wasmount_core::plan::PlanFile;
use wasmount_core::plan::attached::SecretScope;
use wasmount_core::secrets::Secrets;

fn recorder(open: bool) -> Recorder {
    let secrets = Secrets::from_iter([("password".to_owned(), "tr0ub4dor".to_owned())]);
    Recorder::new(open, Redactor::new(Arc::new(secrets), Arc::default()))
}

fn tree() -> Source {
    Source::Directory {
        pool: "volumes".to_owned(),
        path: "a".to_owned(),
    }
}

fn files(bytes: usize) -> Source {
    Source::Files {
        files: vec![PlanFile {
            path: "key".to_owned(),
            mode: 0o400,
            content: vec![0; bytes],
        }],
    }
}

#[test]
fn one_source_with_options_and_notes_is_a_plan() {
    let mut recorder = recorder(true);
    recorder.mount_options(vec!["noatime".to_owned()]).unwrap();
    recorder.source(tree()).unwrap();
    recorder.default_fs_type("ext4".to_owned()).unwrap();
    recorder.note("key".to_owned(), "value".to_owned()).unwrap();
    assert!(recorder.refused.is_none());
    assert_eq!(
        recorder.into_plan().unwrap(),
        Plan {
            source: tree(),
            default_fs_type: Some("ext4".to_owned()),
            mount_options: vec!["noatime".to_owned()],
            notes: BTreeMap::from([("key".to_owned(), "value".to_owned())]),
            luks: None,
        }
    );
}

#[test]
fn without_a_source_there_is_no_plan() {
    let mut recorder = recorder(true);
    recorder.mount_options(vec!["noatime".to_owned()]).unwrap();
    assert_eq!(recorder.into_plan(), None);
}

#[test]
fn contents_of_files_may_be_secrets_and_hold_a_mebibyte() {
    let mut recorder = recorder(true);
    recorder.source(files(FILE_BYTES)).unwrap();
    assert!(recorder.into_plan().is_some());
}

#[test]
fn a_refused_step_is_remembered() {
    type Steps = fn(&mut Recorder) -> Result<(), HostError>;
    let steps: [(Steps, &str); 6] = [
        (
            |recorder| {
                recorder
                    .source(tree())
                    .and_then(|()| recorder.source(tree()))
            },
            "step `directory` is refused: the plan has a source already, and takes one only",
        ),
        (
            |recorder| recorder.source(files(FILE_BYTES + 1)),
            "step `files` is refused: its files hold more than 1 MiB",
        ),
        (
            |recorder| recorder.mount_options(vec!["a\0b".to_owned()]),
            "step `mount-options` is refused: a string contains a NUL byte",
        ),
        (
            |recorder| recorder.mount_options(vec![String::new(); PLAN_STRINGS + 1]),
            "step `mount-options` is refused: the plan is larger than 256 strings or 32 KiB",
        ),
        (
            |recorder| recorder.note("n".to_owned(), "v".repeat(MAP_BYTES)),
            "step `note` is refused: the notes of a volume hold more than 4 KiB",
        ),
        (
            |recorder| recorder.note("key".to_owned(), "is tr0ub4dor".to_owned()),
            "step `note` is refused: a string contains the value of a secret; give its name in `secret-options` instead, the plan is journaled",
        ),
    ];
    for (steps, refusal) in steps {
        let mut recorder = recorder(true);
        assert!(steps(&mut recorder).is_err(), "{refusal}");
        let remembered = recorder.refused.as_ref().unwrap();
        assert_eq!(remembered.text, refusal);
        assert_eq!(remembered.code, None);
    }
}

#[test]
fn a_block_device_is_encrypted_and_a_tree_is_not() {
    let luks = || Luks::of(SecretScope::Request, "key");
    let image = Source::Image {
        pool: "volumes".to_owned(),
        path: "a".to_owned(),
    };
    let mut taken = recorder(true);
    taken.source(image).unwrap();
    taken.luks(luks()).unwrap();
    assert_eq!(taken.into_plan().unwrap().luks, Some(luks()));
    for source in [None, Some(tree())] {
        let mut refused = recorder(true);
        if let Some(source) = source {
            refused.source(source).unwrap();
        }
        assert!(refused.luks(luks()).is_err());
        let text = &refused.refused.as_ref().unwrap().text;
        assert!(
            text.contains("belongs to a step that is a block device"),
            "{text}"
        );
    }
}

#[test]
fn what_a_request_does_not_bring_is_its_own_fault() {
    let mut recorder = recorder(true);
    let blame = Blame::Of(Owner::Request);
    recorder.refuse("filesystem", "it names a secret", blame);
    let StepRefusal { code, blame, .. } = recorder.refused.as_ref().unwrap();
    assert_eq!(*code, Some(Code::InvalidArgument));
    assert_eq!(*blame, Blame::Of(Owner::Request));
}

#[test]
fn outside_of_staging_nothing_is_recorded() {
    let mut recorder = recorder(false);
    assert!(recorder.source(tree()).is_err());
    assert!(recorder.refused.is_some());
    assert_eq!(recorder.into_plan(), None);
}

fn share() -> Source {
    Source::Filesystem {
        fs_type: "cifs".to_owned(),
        source: "//server/share".to_owned(),
        options: Vec::new(),
        secret_options: Vec::new(),
        backend_secret_options: Vec::new(),
        sealed_options: Vec::new(),
    }
}

fn password_of(secret: &str) -> Vec<(String, String)> {
    vec![("password".to_owned(), secret.to_owned())]
}

#[test]
fn a_document_secret_is_recorded_by_name() {
    let mut recorder = recorder(true);
    recorder.source(share()).unwrap();
    let recorded = recorder.backend_secret_options(password_of("account"), |_| true);
    recorded.unwrap();
    let expected = Source::Filesystem {
        fs_type: "cifs".to_owned(),
        source: "//server/share".to_owned(),
        options: Vec::new(),
        secret_options: Vec::new(),
        backend_secret_options: password_of("account"),
        sealed_options: Vec::new(),
    };
    assert_eq!(recorder.into_plan().unwrap().source, expected);
}

#[test]
fn an_unknown_document_secret_is_the_administrators() {
    let mut recorder = recorder(true);
    recorder.source(share()).unwrap();
    let refused = recorder.backend_secret_options(password_of("account"), |_| false);
    refused.unwrap_err();
    let refusal = recorder.refused.as_ref().unwrap();
    assert_eq!(refusal.code, Some(Code::FailedPrecondition));
    assert_eq!(refusal.blame, Blame::Of(Owner::Administrator));
    assert!(refusal.text.contains("`spec.secrets`"), "{}", refusal.text);
}

#[test]
fn document_secrets_without_a_file_system_are_rejected() {
    for source in [None, Some(tree())] {
        let mut recorder = recorder(true);
        if let Some(source) = source {
            recorder.source(source).unwrap();
        }
        let refused = recorder.backend_secret_options(password_of("account"), |_| true);
        refused.unwrap_err();
        assert_eq!(
            recorder.refused.as_ref().unwrap().blame,
            Blame::Of(Owner::Plugin)
        );
    }
}

#[test]
fn a_sealed_option_is_recorded_after_its_step() {
    let mut recorder = recorder(true);
    recorder.source(share()).unwrap();
    let sealed = password_of("wasmount.sealed.v1:AAAA");
    recorder.sealed_options(sealed.clone()).unwrap();
    let source = recorder.into_plan().unwrap().source;
    assert_eq!(source.sealed_options(), sealed);
}

#[test]
fn what_is_not_sealed_or_comes_too_early_is_refused() {
    for (source, text, refusal) in [
        (
            Some(share()),
            "in-clear",
            "step `secret-options` is refused: it names what is no sealed text; pass on what `seal` returned",
        ),
        (
            None,
            "wasmount.sealed.v1:AAAA",
            "step `secret-options` is refused: it belongs to the step `filesystem`, which comes first",
        ),
    ] {
        let mut recorder = recorder(true);
        source
            .into_iter()
            .for_each(|it| recorder.source(it).unwrap());
        recorder.sealed_options(password_of(text)).unwrap_err();
        assert_eq!(recorder.refused.as_ref().unwrap().text, refusal);
    }
}
