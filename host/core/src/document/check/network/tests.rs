//! Which network grants a document may have.

use super::*;
use crate::document::Grants;

fn grants(text: &str) -> Result<BTreeMap<String, NetworkGrant>, String> {
    let endpoints = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let secrets = ["user", "password", "ca"].map(str::to_owned).into();
    checked(&KeyPath::of("network"), endpoints, &secrets).map_err(|fault| fault.to_string())
}

fn grant(body: &str) -> Result<NetworkGrant, String> {
    let granted = grants(&format!(
        r#"{{"array":{{"hosts":["a.example.com"]{body}}}}}"#
    ));
    granted.map(|mut grants| grants.remove("array").unwrap())
}

#[test]
fn hosts_are_names_addresses_and_patterns_with_ports() {
    let dns = |name: &str| HostName::Dns(name.to_owned());
    let address = |text: &str| HostName::Address(text.parse().unwrap());
    for (text, name, port) in [
        ("Array.example.com", dns("array.example.com"), 443),
        ("array:8443", dns("array"), 8443),
        ("10.0.0.1:80", address("10.0.0.1"), 80),
        ("[fd00::1]:8080", address("fd00::1"), 8080),
        ("[fd00::1]", address("fd00::1"), 443),
        ("fd00::1", address("fd00::1"), 443),
        (
            "10.1.0.0/28:443",
            HostName::Range("10.1.0.0/28".parse().unwrap()),
            443,
        ),
        (
            "*.example.com:1",
            HostName::Suffix(".example.com".to_owned()),
            1,
        ),
    ] {
        let host = Host::parse(text, Scheme::Https);
        assert_eq!(host, Some(Host { name, port }), "{text}");
    }
    for text in [
        "",
        ":1",
        "a:0",
        "a:70000",
        "a:x",
        "a b",
        "*",
        "*example.com",
        "a..b",
        "-a",
        "127.1",
        "0x7f.1",
        "a/b",
        "http://a",
        "user@a",
        "[::1",
        "[a]:x",
    ] {
        assert_eq!(Host::parse(text, Scheme::Https), None, "{text}");
    }
}

#[test]
fn a_grant_has_narrow_defaults() {
    let granted = grant("").unwrap();
    assert_eq!(granted.services, [ServiceName::Controller].into());
    assert_eq!(granted.scheme, Scheme::Https);
    assert_eq!(granted.rate.in_flight, 8);
    assert_eq!(granted.max_body_bytes, 4 << 20);
    assert_eq!(granted.paths, ["/"]);
    assert_eq!(granted.auth, Auth::None);
    assert!(granted.secret_names().is_empty());
}

#[test]
fn secrets_of_a_login_are_found_at_every_place() {
    let session = r#","tls":{"ca":"ca"},"auth":{"session":{"login":{"path":"/login","json":{"a":[{"user":{"secret":"user"}},{"secret":"password"}]}},"take":{"header":"X-Token"},"give":{"bearer":true}}}"#;
    let granted = grant(session).unwrap();
    assert_eq!(granted.secret_names(), ["ca", "password", "user"].into());
    let stored = serde_json::to_string(&granted).unwrap();
    assert_eq!(
        serde_json::from_str::<NetworkGrant>(&stored).unwrap(),
        granted
    );
    let unknown = session.replace("\"password\"", "\"other\"");
    assert_eq!(
        grant(&unknown).unwrap_err(),
        "network.array: names the secret `other`, which is not in `spec.secrets`"
    );
}

#[test]
fn a_name_is_an_identifier_by_every_field_that_names_it() {
    let login = |fields: &str| {
        format!(
            r#"{{"session":{{"login":{{"path":"/login",{fields}}},"take":{{"header":"X-Token"}},"give":{{"bearer":true}}}}}}"#
        )
    };
    let [user, password, ca] = [
        r#"{"identifier":"user"}"#,
        r#"{"secret":"password"}"#,
        r#"{"identifier":"ca"}"#,
    ];
    for (auth, expected) in [
        (
            r#"{"basic":{"username":"user","password":"password"}}"#.to_owned(),
            vec!["user"],
        ),
        (
            r#"{"basic":{"username":"user","password":"user"}}"#.to_owned(),
            vec![],
        ),
        (
            login(r#""basic":{"username":"user","password":"password"}"#),
            vec!["user"],
        ),
        (
            login(&format!(
                r#""json":{{"a":[{{"b":{user}}},{password}],"c":{ca}}}"#
            )),
            vec!["ca", "user"],
        ),
        (
            login(&format!(r#""form":{{"a":{user},"b":{password}}}"#)),
            vec!["user"],
        ),
        (
            login(&format!(
                r#""headers":{{"a":{user},"b":{{"secret":"user"}}}}"#
            )),
            vec![],
        ),
        (
            login(r#""json":{"a":{"identifier":{"b":1},"secret":"c"}}"#),
            vec![],
        ),
    ] {
        let granted = Grants {
            network: [(
                "array".to_owned(),
                grant(&format!(r#","auth":{auth}"#)).unwrap(),
            )]
            .into(),
            ..Grants::default()
        };
        let found: Vec<_> = granted.identifiers().into_iter().collect();
        assert_eq!(found, expected, "{auth}");
        assert!(granted.held_secrets().is_superset(&granted.identifiers()));
    }
    let unknown = login(r#""form":{"a":{"identifier":"other"}}"#);
    let refused = grant(&format!(r#","auth":{unknown}"#)).unwrap_err();
    assert!(refused.contains("names the secret `other`"), "{refused}");
}

#[test]
fn each_invalid_value_is_named_by_its_key() {
    for (body, complaint) in [
        (r#","hosts":["*.a.example.com"]"#, "duplicate field `hosts`"),
        (
            r#","methods":["CONNECT"]"#,
            "network.array.methods[0]: must be one of DELETE, GET, HEAD, PATCH, POST, PUT",
        ),
        (
            r#","paths":["api"]"#,
            "network.array.paths[0]: must be a path, such as `/api/`",
        ),
        (
            r#","addresses":["10.0.0.0/33"]"#,
            "network.array.addresses[0]: must be a range, such as `10.1.0.0/16`",
        ),
        (
            r#","maxBody":"33Mi""#,
            "network.array.maxBody: must be between 1 byte and 32Mi",
        ),
        (
            r#","scheme":"http","tls":{"skipVerify":true}"#,
            "network.array.tls: has no effect with `scheme: http`; remove it",
        ),
        (
            r#","tls":{"clientKey":"user"}"#,
            "network.array.tls: needs both of `clientCertificate` and `clientKey`",
        ),
        (
            r#","rate":{"burst":3}"#,
            "network.array.rate.burst: needs `perSecond`",
        ),
        (
            r#","rate":{"inFlight":0}"#,
            "network.array.rate.inFlight: must be between 1 and 1024",
        ),
        (
            r#","auth":{}"#,
            "network.array.auth: must have one of `basic`, `bearer`, `header`, `jwt`, `session` and `sessionOf`",
        ),
        (
            r#","auth":{"sessionOf":"array"}"#,
            "network.array.auth.sessionOf: must be the name of an entry with `auth.session`",
        ),
        (
            r#","auth":{"header":{"name":"a b","value":"user"}}"#,
            "network.array.auth.header.name: must be the name of a header",
        ),
        (
            r#","proxy":"http://user@proxy""#,
            "network.array.proxy: must be a URL without path and credentials, such as `http://proxy.example.com:3128`",
        ),
    ] {
        let refused = grant(body).unwrap_err();
        assert!(refused.starts_with(complaint), "{body}: {refused}");
    }
    let pattern = grants(r#"{"array":{"hosts":["*.example.com"]}}"#);
    let needs = "network.array.hosts[0]: is a pattern, which needs `hostFrom`";
    assert_eq!(pattern.unwrap_err(), needs);
    assert!(
        grants(r#"{"array":{"hosts":["*.example.com"],"hostFrom":{"requestSecret":"backend"}}}"#)
            .is_ok()
    );
    assert!(grants(r#"{"Array":{"hosts":["a"]}}"#).is_err());
}
