//! Tables of servers of sources and of the options that follow from them.

use super::*;

type Options = Vec<(String, String)>;

fn options(words: &[&str]) -> Options {
    let pair = |word: &&str| {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        (name.to_owned(), value.to_owned())
    };
    words.iter().map(pair).collect()
}

/// The completed options of an NFS mount, and the kind of address.
fn nfs(words: &[&str]) -> Result<(Options, Option<AddressFamily>), MountError> {
    let mut options = options(words);
    let server = parse("nfs4", "server:/a", &mut options)?.unwrap();
    Ok((options, server.family))
}

#[test]
fn the_server_of_a_source_is_found() {
    for (fs_type, source, host, option) in [
        ("nfs4", "server:/a", "server", "addr"),
        ("nfs", "nfs-1.example.org:/", "nfs-1.example.org", "addr"),
        ("nfs4", "10.0.0.1:/a b", "10.0.0.1", "addr"),
        ("nfs4", "[::1]:/a", "::1", "addr"),
        ("nfs4", "[fe80::1%eth0]:/a", "fe80::1%eth0", "addr"),
        ("cifs", "//server/share", "server", "ip"),
        ("smb3", "//10.0.0.1/share/below", "10.0.0.1", "ip"),
        ("cifs", "//fd00::1/share", "fd00::1", "ip"),
    ] {
        let server = parse(fs_type, source, &mut Vec::new()).unwrap().unwrap();
        assert_eq!((server.host.as_str(), server.option), (host, option));
    }
    for (fs_type, source) in [("ceph", "10.0.0.1:6789:/"), ("overlay", "a"), ("9p", "tag")] {
        assert_eq!(parse(fs_type, source, &mut Vec::new()), Ok(None));
    }
}

#[test]
fn a_source_without_a_server_is_refused() {
    for (fs_type, source) in [
        ("nfs4", "server"),
        ("nfs4", "/a"),
        ("nfs4", "server:a"),
        ("nfs4", ":/a"),
        ("nfs4", "one,two:/a"),
        ("nfs4", "user@server:/a"),
        ("nfs4", "::1:/a"),
        ("nfs4", "[server]:/a"),
        ("nfs4", "[::1]/a"),
        ("nfs4", "[::1%]:/a"),
        ("cifs", "server/share"),
        ("cifs", "//server"),
        ("cifs", "//server/"),
        ("cifs", "///share/a"),
        ("cifs", "//server//a"),
        ("cifs", "//user:word@server/share"),
        ("cifs", "smb://server/share"),
        ("cifs", "//[::1]/share"),
    ] {
        let parsed = parse(fs_type, source, &mut Vec::new());
        assert!(
            matches!(parsed, Err(MountError::Invalid { .. })),
            "{source}"
        );
    }
}

#[test]
fn the_newest_version_is_asked_for_where_none_is_named() {
    for (given, settled) in [
        (&[][..], &["vers=4.2"][..]),
        (&["vers=4"], &["vers=4.2"]),
        (&["nfsvers=4"], &["nfsvers=4.2"]),
        (&["vers=4.0"], &["vers=4.0"]),
        (&["hard", "vers=4.1"], &["hard", "vers=4.1"]),
        (&["minorversion=1"], &["minorversion=1", "vers=4"]),
        (&["vers=4", "minorversion=1"], &["vers=4", "minorversion=1"]),
    ] {
        assert_eq!(nfs(given).unwrap().0, options(settled), "{given:?}");
    }
}

#[test]
fn older_versions_and_two_of_them_are_refused() {
    for words in [&["vers=3"][..], &["nfsvers=2"], &["vers="]] {
        assert!(
            matches!(nfs(words), Err(MountError::Unsupported { .. })),
            "{words:?}"
        );
    }
    let twice = nfs(&["vers=4.1", "nfsvers=4.2"]);
    assert!(matches!(twice, Err(MountError::Invalid { .. })));
}

#[test]
fn the_transport_chooses_the_kind_of_address() {
    assert_eq!(nfs(&[]).unwrap().1, None);
    assert_eq!(nfs(&["proto=tcp"]).unwrap().1, Some(AddressFamily::V4));
    assert_eq!(nfs(&["proto=rdma6"]).unwrap().1, Some(AddressFamily::V6));
    assert!(nfs(&["proto=udp"]).is_err());
}
