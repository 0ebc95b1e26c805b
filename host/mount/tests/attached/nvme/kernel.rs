//! What the VM's kernel does by itself: it connects to its own target, loses one of two paths, and connects again.

use super::target::{Target, connect, controllers, states};
use super::volume::uuid;
use crate::support::until;
use std::fs;
use std::io::{Read, Write};

#[test]
fn on_other_kernel_nvme_over_tcp_has_two_paths() {
    let mut target = Target::start(2);
    target.add(1, &uuid(1), 64 << 20);
    for index in [0, 1] {
        let answer = connect(index, "");
        assert!(answer.starts_with("instance="), "{answer}");
    }
    assert_eq!(states(), ["live", "live"]);
    let device = target.device(1);
    let write = |text: &[u8]| {
        let mut file = fs::File::options().write(true).open(&device).unwrap();
        file.write_all(text).unwrap();
        file.sync_all().unwrap();
    };
    write(b"by two paths");
    target.pause(0);
    until("a lost path", || states() == ["connecting", "live"]);
    write(b"by one path ");
    target.resume(0);
    until("both paths", || states() == ["live", "live"]);
    let mut read = [0; 12];
    let mut file = fs::File::open(&device).unwrap();
    file.read_exact(&mut read).unwrap();
    assert_eq!(&read, b"by one path ");
    drop(file);
    drop(target);
    assert!(controllers().is_empty());
}
