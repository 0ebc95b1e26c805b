//! Tests of the credentials of a file.

use super::*;

fn user(config: &str, reference: &str) -> Result<Option<(String, String)>, DockerConfigError> {
    let reference = Reference::parse(reference).unwrap();
    let login = login(config.as_bytes(), "f", &reference)?;
    Ok(login.map(|login| (login.user, login.password.to_string())))
}

fn pair(user: &str, password: &str) -> Option<(String, String)> {
    Some((user.to_owned(), password.to_owned()))
}

#[test]
fn the_nearest_entry_is_taken_however_it_is_written() {
    // base64 of `ann:a:b`, `bob:c` and `eve:d`.
    let config = r#"{"auths": {
        "a.b": {"auth": "YW5uOmE6Yg=="},
        "a.b/team": {"auth": "Ym9iOmM="},
        "https://c.d:5000/v2/": {"username": "eve", "password": "d"},
        "https://index.docker.io/v1/": {"auth": "ZXZlOmQ="}
    }}"#;
    for (reference, expected) in [
        ("a.b/x:1", pair("ann", "a:b")),
        ("a.b/team/x:1", pair("bob", "c")),
        ("a.b/teamster:1", pair("ann", "a:b")),
        ("c.d:5000/x:1", pair("eve", "d")),
        ("docker.io/library/x:1", pair("eve", "d")),
        ("c.d/x:1", None),
        ("aa.b/x:1", None),
        ("a.bc/x:1", None),
    ] {
        assert_eq!(user(config, reference).unwrap(), expected, "{reference}");
    }
    assert_eq!(user("{}", "a.b/x:1").unwrap(), None);
}

#[test]
fn what_cannot_be_used_is_refused_without_showing_it() {
    for (config, begin) in [
        (r#"{"auths": {"a.b": {"auth": "hunter2"}}}"#, "f: `auth` of"),
        (
            r#"{"auths": {"a.b": {"auth": "aHVudGVyMg=="}}}"#,
            "f: `auth` of",
        ),
        (
            r#"{"auths": {"a.b": {"identitytoken": "hunter2"}}}"#,
            "f: the entry for a.b has an identity token",
        ),
        (r#"{"auths": {"a.b": "hunter2"}}"#, "f is not docker's"),
        (
            r#"{"auths": {"a.b": {}}, "credsStore": "desktop"}"#,
            "f: the password for a.b is held by the credential helper `desktop`",
        ),
        (
            r#"{"credHelpers": {"a.b": "ecr-login"}}"#,
            "f: the password for a.b is held by the credential helper `ecr-login`",
        ),
    ] {
        let error = user(config, "a.b/x:1").unwrap_err().to_string();
        assert!(error.starts_with(begin), "{error}");
        assert!(
            !error.contains("hunter2") && !error.contains("aHVu"),
            "{error}"
        );
    }
    let store = r#"{"auths": {"a.b": {}}, "credsStore": "desktop"}"#;
    assert_eq!(user(store, "c.d/x:1").unwrap(), None);
}
