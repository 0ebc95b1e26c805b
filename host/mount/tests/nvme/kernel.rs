//! What the VM's kernel does by itself: it connects to its own target, loses one of two paths, and connects again.

use crate::target::{NQN, Target, controllers, eventually};
use std::fs;
use std::io::{Read, Write};

const UUID: &str = "11111111-2222-4333-8444-555555555555";

/// The answer of the kernel names the controller.
fn connect(index: u16) -> String {
    let mut fabrics = fs::File::options()
        .read(true)
        .write(true)
        .open("/dev/nvme-fabrics")
        .unwrap();
    let port = Target::address(index);
    let (address, port) = port.split_once(':').unwrap();
    let options = format!(
        "transport=tcp,traddr={address},trsvcid={port},nqn={NQN},reconnect_delay=1,ctrl_loss_tmo=60"
    );
    fabrics.write_all(options.as_bytes()).unwrap();
    let mut answer = String::new();
    fabrics.read_to_string(&mut answer).unwrap();
    answer
}

fn states() -> Vec<String> {
    let each = controllers().into_iter();
    let mut states: Vec<_> = each
        .map(|it| fs::read_to_string(it.join("state")).unwrap())
        .map(|it| it.trim().to_owned())
        .collect();
    states.sort();
    states
}

#[test]
fn on_other_kernel_nvme_over_tcp_has_two_paths() {
    let mut target = Target::start(2);
    target.add(1, UUID, 64 << 20);
    for index in [0, 1] {
        let answer = connect(index);
        assert!(answer.starts_with("instance="), "{answer}");
    }
    assert_eq!(states(), ["live", "live"]);
    let device = eventually("the namespace", || {
        let devices = fs::read_dir("/sys/class/block").unwrap();
        let mut names = devices.map(|it| it.unwrap().file_name().into_string().unwrap());
        names.find(|name| {
            let wwid = fs::read_to_string(format!("/sys/class/block/{name}/wwid"));
            let is_head = fs::metadata(format!("/dev/{name}")).is_ok();
            is_head && wwid.is_ok_and(|wwid| wwid.trim() == format!("uuid.{UUID}"))
        })
    });
    let device = format!("/dev/{device}");
    let write = |text: &[u8]| {
        let mut file = fs::File::options().write(true).open(&device).unwrap();
        file.write_all(text).unwrap();
        file.sync_all().unwrap();
    };
    write(b"by two paths");
    target.pause(0);
    eventually("a lost path", || {
        (states() == ["connecting", "live"]).then_some(())
    });
    write(b"by one path ");
    target.resume(0);
    eventually("both paths", || {
        (states() == ["live", "live"]).then_some(())
    });
    let mut read = [0; 12];
    let mut file = fs::File::open(&device).unwrap();
    file.read_exact(&mut read).unwrap();
    assert_eq!(&read, b"by one path ");
    drop(file);
    drop(target);
    assert!(controllers().is_empty());
}
