//! The table of harmless options, in pairs: options that administrators use, and similar ones that are refused.

use super::*;

fn is_option_harmless(fs_type: &str, word: &str) -> bool {
    let (name, value) = word.split_once('=').unwrap_or((word, ""));
    is_harmless(fs_type, name, value)
}

#[test]
fn what_administrators_use_is_harmless() {
    for (fs_type, words) in [
        (
            "ext4",
            "discard commit=30 data=ordered errors=remount-ro stripe=16 lazytime",
        ),
        ("xfs", "inode64 allocsize=64m logbsize=256k nouuid prjquota"),
        (
            "btrfs",
            "compress compress=zstd:3 ssd autodefrag discard=async",
        ),
        (
            "nfs4",
            "vers=4.1 hard softreval nconnect=8 rsize=1048576 sec=sys:krb5p noresvport actimeo=0 nolock proto=tcp6",
        ),
        ("nfs", "nfsvers=4.2 timeo=600 retrans=2 lookupcache=pos"),
        (
            "cifs",
            "vers=3.1.1 seal uid=1000 gid=1000 file_mode=0660 dir_mode=0770 cache=strict mfsymlinks actimeo=30 domain=CORP",
        ),
        ("smb3", "multichannel max_channels=4 sec=ntlmssp"),
        ("ceph", "name=kubernetes ms_mode=prefer-crc rasize=8388608"),
        (
            "9p",
            "trans=virtio version=9p2000.L msize=262144 access=client cache=mmap",
        ),
        ("overlay", "index=off xino=auto"),
        ("virtiofs", "sync"),
    ] {
        for word in words.split(' ') {
            assert!(is_option_harmless(fs_type, word), "{fs_type} {word}");
        }
    }
}

#[test]
fn what_hurts_the_node_or_has_a_value_of_another_shape_is_not() {
    for (fs_type, words) in [
        (
            "ext4",
            "errors=panic errors data=fast commit=-1 commit=1k discard=async journal_path=/dev/sda usrjquota=a nobarrier",
        ),
        (
            "xfs",
            "logdev=/dev/sda rtdev=/dev/sda allocsize=64x norecovery inode64=1",
        ),
        (
            "btrfs",
            "device=/dev/sda subvol=/ compress=gzip compress=zstd: compress=zstd:a degraded user_subvol_rm_allowed",
        ),
        (
            "nfs4",
            "vers=3 vers=2 proto=udp addr=10.0.0.1 sec= sec=sys: sec=sys:x port=+1 nconnect=99999999999 context=a",
        ),
        (
            "cifs",
            "vers=1.0 noperm ip=10.0.0.1 cruid=0 multiuser file_mode=660 file_mode=04755 uid=root domain=a/b domain= credentials=/etc/x password=x",
        ),
        (
            "ceph",
            "secret=x mds_namespace=other secretfile=/etc/x conf=/etc/x",
        ),
        ("9p", "trans=fd trans=unix rfdno=3 aname=/"),
        (
            "overlay",
            "upperdir=/etc lowerdir=/etc workdir=/tmp volatile redirect_dir=on metacopy=on",
        ),
        ("virtiofs", "dax fd=3 rootmode=40000 user_id=0 discard"),
    ] {
        for word in words.split(' ') {
            assert!(!is_option_harmless(fs_type, word), "{fs_type} {word}");
        }
    }
}

#[test]
fn options_of_one_file_system_are_none_of_another() {
    assert!(is_harmless("nfs4", "hard", ""));
    assert!(!is_harmless("ext4", "hard", ""));
    assert!(!is_harmless("nfs4", "data", "ordered"));
}

#[test]
fn what_is_reserved_is_never_harmless() {
    let types = [
        "ext4", "xfs", "btrfs", "nfs", "nfs4", "cifs", "smb3", "ceph", "9p", "overlay", "tmpfs",
        "virtiofs",
    ];
    for fs_type in types {
        assert!(is_reserved(fs_type, "source"), "{fs_type}");
        for name in TABLE.split_ascii_whitespace() {
            for value in ["", "1", "word", "tcp"] {
                let is_both = is_reserved(fs_type, name) && is_harmless(fs_type, name, value);
                assert!(!is_both, "{fs_type} {name}");
            }
        }
    }
}

#[test]
fn every_row_has_a_known_shape_and_names() {
    let known = [
        "flag", "number", "size", "mode", "octal", "word", HOST, SECRET,
    ];
    let is_row = |line: &&str| !line.is_empty() && !line.starts_with('#');
    for line in TABLE.lines().filter(is_row) {
        let shape = line.split_ascii_whitespace().nth(1).unwrap();
        assert!(known.contains(&shape) || shape.contains('|'), "{line}");
        assert!(line.split_ascii_whitespace().nth(2).is_some(), "{line}");
    }
}
