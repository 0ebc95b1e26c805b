//! Plans as they arrive from another process, and their secret options.

use super::attached::SecretScope;
use super::*;

pub(super) fn plan(source: Source) -> Plan {
    Plan {
        source,
        default_fs_type: Some("ext4".to_owned()),
        mount_options: vec!["noatime".to_owned()],
        notes: BTreeMap::from([("portal".to_owned(), "a".to_owned())]),
        luks: None,
    }
}

fn tree(path: &str) -> Source {
    Source::Directory {
        pool: "main".to_owned(),
        path: path.to_owned(),
    }
}

fn image_encrypted_by(key: &str) -> Plan {
    let image = Source::Image {
        pool: "main".to_owned(),
        path: "v.img".to_owned(),
    };
    Plan {
        luks: Some(Luks::of(SecretScope::Request, key)),
        ..plan(image)
    }
}

fn files(bytes: usize) -> Source {
    Source::Files {
        files: vec![PlanFile {
            path: "token".to_owned(),
            mode: 0o400,
            content: vec![b'x'; bytes],
        }],
    }
}

fn is_read(plan: &Plan) -> bool {
    let text = serde_json::to_string(plan).unwrap();
    serde_json::from_str::<Plan>(&text).is_ok_and(|read| read == *plan)
}

#[test]
fn a_plan_that_could_have_been_recorded_is_read() {
    // The mounter rejects a path that leads out of the pool when it opens it.
    for source in [tree("v"), tree("../v"), files(FILE_BYTES)] {
        assert!(is_read(&plan(source)));
    }
    assert!(is_read(&image_encrypted_by("key")));
}

#[test]
fn each_secret_option_is_taken_from_its_own_scope() {
    let pair = |option: &str, secret: &str| (option.to_owned(), secret.to_owned());
    let secrets = |value: &str| Secrets::from_iter([pair("key", value)]);
    let plan = plan(Source::Filesystem {
        fs_type: "cifs".to_owned(),
        source: "//server/share".to_owned(),
        options: Vec::new(),
        secret_options: vec![pair("username", "key"), pair("domain", "none")],
        backend_secret_options: vec![pair("password", "key")],
        sealed_options: Vec::new(),
    });
    let options = plan.secret_options(&secrets("of-request"), &secrets("of-backend"));
    assert_eq!(options.get("username"), Some("of-request"));
    assert_eq!(options.get("password"), Some("of-backend"));
    assert_eq!(options.get("domain"), None);
    assert!(is_read(&plan));
}

#[test]
fn a_plan_of_an_earlier_journal_is_read() {
    let text = r#"{"source":{"Filesystem":{"fs_type":"nfs4","source":"s:/e","options":[],"secret_options":[]}},
        "default_fs_type":null,"mount_options":[],"notes":{}}"#;
    let read: Plan = serde_json::from_str(text).unwrap();
    assert!(matches!(
        read.source,
        Source::Filesystem { backend_secret_options, sealed_options, .. }
            if backend_secret_options.is_empty() && sealed_options.is_empty()
    ));
}

#[test]
fn a_plan_that_could_not_have_been_recorded_is_refused() {
    let with = |change: fn(&mut Plan)| {
        let mut plan = plan(tree("v"));
        change(&mut plan);
        plan
    };
    for refused in [
        plan(tree("a\0b")),
        plan(tree(&"p".repeat(PLAN_BYTES))),
        plan(files(FILE_BYTES + 1)),
        with(|plan| plan.mount_options = vec![String::new(); PLAN_STRINGS]),
        with(|plan| plan.default_fs_type = Some("ext4\0".to_owned())),
        with(|plan| plan.luks = Some(Luks::of(SecretScope::Request, "key"))),
        image_encrypted_by("key\0"),
        with(|plan| drop(plan.notes.insert("n".to_owned(), "n".repeat(MAP_BYTES)))),
    ] {
        assert!(!is_read(&refused), "{refused:?}");
    }
}
