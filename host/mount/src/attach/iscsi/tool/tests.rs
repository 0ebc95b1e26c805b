//! Tests of open-iscsi's records, and of what is read from its answers.

use super::*;

const RECORD: &str = "# BEGIN RECORD 2.1.8\n\
    node.name = iqn.2026-01.example:a\n\
    node.startup = automatic\n\
    node.session.auth.authmethod = None\n\
    node.session.auth.chap_algs = MD5\n\
    node.session.nr_sessions = 4\n\
    node.session.scan = auto\n\
    node.conn[0].address = 10.1.1.5\n\
    # END RECORD\n";

fn secrets(values: &[(&str, &str)]) -> SecretOptions {
    let owned = |(option, value): &(&str, &str)| ((*option).to_owned(), (*value).to_owned());
    values.iter().map(owned).collect()
}

#[test]
fn a_record_keeps_other_settings_of_the_administrator() {
    let none = Credentials::parse(&secrets(&[])).unwrap();
    let record = with_settings(RECORD, &none);
    let has = |line: &str| record.lines().filter(|it| *it == line).count() == 1;
    assert!(has("node.name = iqn.2026-01.example:a"));
    assert!(has("node.conn[0].address = 10.1.1.5"));
    assert!(has("node.session.auth.authmethod = None"));
    assert!(has("node.session.scan = manual"));
    assert!(has("node.startup = manual"));
    assert!(has("node.session.nr_sessions = 1"));
    assert!(!record.contains("automatic") && !record.contains("= auto\n"));
}

#[test]
fn the_secrets_of_a_login_are_in_its_record() {
    let chap = [
        (option::CHAP_USER, "array"),
        (option::CHAP_PASSWORD, "hunter22 = hunter22"),
    ];
    let record = with_settings(RECORD, &Credentials::parse(&secrets(&chap)).unwrap());
    let has = |line: &str| record.lines().any(|it| it == line);
    assert!(has("node.session.auth.authmethod = CHAP"));
    assert!(has("node.session.auth.username = array"));
    assert!(has("node.session.auth.password = hunter22 = hunter22"));
    assert!(!record.contains("username_in") && !record.contains("= None"));
}

#[test]
fn a_secret_that_would_be_another_line_is_refused_unseen() {
    for value in [
        "",
        "hunter22\nnode.session.scan = auto",
        " hunter22",
        "hunter22 ",
        &"hunter22".repeat(32),
    ] {
        let refused = Credentials::parse(&secrets(&[(option::CHAP_PASSWORD, value)]));
        let Err(refused) = refused else {
            panic!("{value:?} is taken");
        };
        let text = refused.to_string();
        assert!(
            text.contains("chap-password") && !text.contains("hunter"),
            "{text}"
        );
    }
}
