//! Lines in the kernel's format, and invalid lines.

use super::*;
use proptest::prelude::*;

const LINES: &str = "\
22 27 0:21 / /proc rw,relatime - proc proc rw,hidepid=2
36 35 98:0 /mnt1\\040a /mnt\\0402\\011tab\\134back rw,noatime master:1 shared:7 - ext3 /dev/root rw
37 35 98:0 / /mnt rw master:1 - ext3 a b
";

#[test]
fn lines_are_parsed_with_escapes_and_optional_fields() {
    let line = |(mount_id, parent_id),
                (device, fs_type, source, super_options): (&str, &str, &str, &str),
                root: &str,
                point: &str,
                is_shared| {
        MountLine {
            mount_id,
            parent_id,
            device: DeviceNumber::parse(device).unwrap(),
            root: root.into(),
            mount_point: point.into(),
            is_shared,
            fs_type: fs_type.to_owned(),
            source: source.to_owned(),
            super_options: super_options.to_owned(),
        }
    };
    let (proc, root_disk) = (
        ("0:21", "proc", "proc", "rw,hidepid=2"),
        ("98:0", "ext3", "/dev/root", "rw"),
    );
    let disk = ("98:0", "ext3", "a", "b");
    assert_eq!(
        parse(LINES.as_bytes()),
        [
            line((22, 27), proc, "/", "/proc", false),
            line((36, 35), root_disk, "/mnt1 a", "/mnt 2\ttab\\back", true),
            line((37, 35), disk, "/", "/mnt", false),
        ]
    );
}

#[test]
fn a_line_that_makes_no_sense_is_left_out_and_the_others_stay() {
    for bad in ["", "x", "1 2 3:4 / /a rw", "x 2 3:4 / /a rw - a b c", "1 2"] {
        let table = format!("{bad}\n{LINES}{bad}");
        assert_eq!(parse(table.as_bytes()).len(), 3, "{bad:?}");
    }
}

#[test]
fn a_path_lies_in_the_topmost_of_the_innermost_mounts() {
    let table = parse(
        b"1 0 8:1 / / rw - ext4 a rw\n2 1 8:2 / /a rw - xfs b rw\n3 2 8:3 / /a rw - xfs c rw\n4 1 8:4 / /a/b rw - xfs d rw\n",
    );
    for (path, expected) in [
        ("/", 1),
        ("/ab/c", 1),
        ("/a", 3),
        ("/a/c", 3),
        ("/a/b/c", 4),
    ] {
        let found = covering(&table, Path::new(path)).map(|line| line.mount_id);
        assert_eq!(found, Some(expected), "{path}");
    }
    assert_eq!(covering(&[], Path::new("/")), None);
}

#[test]
fn nodes_may_lie_on_a_disk_or_in_memory_and_not_with_a_server() {
    for (device, fs_type, expected) in [
        ("8:1", "ext4", true),
        ("0:6", "devtmpfs", true),
        ("0:22", "tmpfs", true),
        ("0:40", "btrfs", true),
        ("0:50", "nfs4", false),
        ("0:51", "fuse.sshfs", false),
        ("8:2", "fuseblk", false),
        ("0:52", "ceph", false),
    ] {
        let table = parse(format!("1 0 {device} / / rw - {fs_type} a rw").as_bytes());
        assert_eq!(table[0].may_hold_nodes(), expected, "{fs_type}");
    }
}

#[test]
fn the_table_of_this_process_has_proc_in_it() {
    let table = read().unwrap();
    assert!(
        table
            .iter()
            .any(|line| line.mount_point.as_os_str() == "/proc")
    );
}

fn escape(path: &[u8]) -> Vec<u8> {
    let mut escaped = Vec::new();
    for byte in path {
        match byte {
            b' ' | b'\t' | b'\n' | b'\\' | b'#' => {
                escaped.extend(format!("\\{byte:03o}").bytes());
            }
            _ => escaped.push(*byte),
        }
    }
    escaped
}

proptest! {
    #[test]
    fn every_mount_point_survives_the_kernels_escaping(path in prop::collection::vec(1_u8.., 0..64)) {
        let mut line = b"1 2 3:4 / ".to_vec();
        line.extend(escape(&path));
        line.extend(b" rw shared:1 - tmpfs none rw");
        let parsed = parse(&line);
        prop_assert_eq!(parsed.len(), 1);
        prop_assert_eq!(parsed[0].mount_point.clone().into_os_string().into_vec(), path);
    }

    #[test]
    fn no_table_makes_the_parser_fail(table in prop::collection::vec(any::<u8>(), 0..512)) {
        let _ = parse(&table);
    }
}
