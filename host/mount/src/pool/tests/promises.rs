//! Capacity and quotas.

use super::*;

const MIB: u64 = 1 << 20;

/// Returns whether the project quota of the file system was used.
fn promise(fixture: &Fixture, path: &str, bytes: Option<u64>) -> bool {
    match fixture.call(set_quota(path, bytes)) {
        Ok(PoolReply::Quota { enforced }) => enforced,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_promised_is_counted_once_and_dies_with_the_tree() {
    let fixture = Fixture::new();
    fixture.done(create("a"));
    fixture.done(create("a/b"));
    promise(&fixture, "a", Some(3 * MIB));
    promise(&fixture, "a", Some(2 * MIB));
    promise(&fixture, "a/b", Some(MIB));
    assert_eq!(fixture.promised(), 3 * MIB);
    fixture.done(rename("a", "c"));
    assert_eq!(fixture.promised(), 3 * MIB);
    promise(&fixture, "c", None);
    assert_eq!(fixture.promised(), MIB);
    fixture.done(remove("c"));
    assert_eq!(fixture.promised(), 0);
}

#[test]
fn a_promise_survives_a_restart() {
    let fixture = Fixture::new();
    fixture.done(create("a"));
    promise(&fixture, "a", Some(3 * MIB));
    fixture.done(create_image("image", MIB));
    let fixture = fixture.restarted();
    assert_eq!(fixture.promised(), 4 * MIB);
    fixture.done(remove("a"));
    let fixture = fixture.restarted();
    assert_eq!(fixture.promised(), MIB);
}

#[test]
fn the_promise_of_a_removed_tree_ends_at_the_next_start() {
    let fixture = Fixture::new();
    fixture.done(create("a"));
    promise(&fixture, "a", Some(MIB));
    let trash = fixture.path(".wasmount/trash/a");
    std::fs::rename(fixture.path("a"), trash).unwrap();
    let fixture = fixture.restarted();
    fixture.wait_until_clear();
    assert_eq!(fixture.promised(), 0);
}

#[test]
fn what_can_be_promised_is_what_is_free_and_not_promised() {
    let fixture = Fixture::new();
    let before = fixture.capacity();
    assert!(before.available_bytes <= before.total_bytes);
    fixture.done(create("a"));
    let most = before.available_bytes;
    assert_eq!(
        kind(fixture.call(set_quota("a", Some(before.total_bytes + MIB)))),
        "no space"
    );
    assert_eq!(
        kind(fixture.call(create_image("image", before.total_bytes + MIB))),
        "no space"
    );
    assert_eq!(fixture.stat("image"), None);
    assert_eq!(fixture.promised(), 0);
    // Half of it does not fit in addition to three quarters. The difference leaves space for what others write to this disk meanwhile.
    let half = most / 2;
    promise(&fixture, "a", Some(half));
    let available = fixture.capacity().available_bytes;
    assert!((most / 4..most / 4 * 3).contains(&available), "{available}");
    fixture.done(create("b"));
    assert_eq!(
        kind(fixture.call(set_quota("b", Some(most / 4 * 3)))),
        "no space"
    );
    // Space that is promised already is not reserved again.
    promise(&fixture, "a", Some(half));
    assert_eq!(fixture.promised(), half);
}

/// Bytes of each of many images: all together must fit into a disk that is nearly full.
const SMALL: u64 = 4096;
/// Maximum duration of a capacity query with 10,000 images, on a busy machine: CreateVolume waits for it when almost the whole disk is promised.
const MOMENT: std::time::Duration = std::time::Duration::from_secs(3);

#[test]
fn the_capacity_of_10_000_images_is_measured_in_time() {
    let fixture = Fixture::new();
    let pool = fixture.pools.open("data").unwrap();
    for i in 0..10_000 {
        let name = format!("image-{i}");
        let file = std::fs::File::create_new(fixture.path(&name)).unwrap();
        let (inode, _) = super::super::ledger::Inode::of_fd(&file).unwrap();
        let place = super::super::place::Place::parse("data", &name).unwrap();
        let holder = super::super::promise::Holder {
            pool: &pool,
            place: &place,
            inode,
        };
        holder.promise_image(SMALL).unwrap();
    }
    let start = std::time::Instant::now();
    fixture.capacity();
    let took = start.elapsed();
    println!("{took:?}");
    assert!(took < MOMENT, "{took:?}");
}

#[test]
fn only_a_tree_has_a_quota() {
    let fixture = Fixture::new();
    fixture.done(create_image("image", MIB));
    assert_eq!(kind(fixture.call(set_quota("image", Some(MIB)))), "invalid");
    assert_eq!(
        kind(fixture.call(set_quota("none", Some(MIB)))),
        "not found"
    );
    assert_eq!(fixture.promised(), MIB);
}

#[test]
fn a_tenant_cannot_change_what_it_was_promised() {
    let fixture = Fixture::new();
    fixture.done(create("a"));
    promise(&fixture, "a", Some(MIB));
    // A tenant can change only the content of its tree.
    std::fs::create_dir(fixture.path("a/.wasmount")).unwrap();
    std::fs::write(fixture.path("a/.wasmount/ledger"), "{}").unwrap();
    let fixture = fixture.restarted();
    assert_eq!(fixture.promised(), MIB);
}

#[test]
fn eight_callers_never_promise_more_than_there_is() {
    let fixture = Fixture::new();
    let share = fixture.capacity().available_bytes / 4;
    let granted: usize = std::thread::scope(|scope| {
        let callers: Vec<_> = (0..8)
            .map(|i| {
                let fixture = &fixture;
                scope.spawn(move || {
                    let path = format!("image-{i}");
                    usize::from(fixture.call(create_image(&path, share)).is_ok())
                })
            })
            .collect();
        callers
            .into_iter()
            .map(|caller| caller.join().unwrap())
            .sum()
    });
    assert_eq!(fixture.promised(), share * granted as u64);
    // Others write to this disk meanwhile: the fourth may not fit, a fifth never fits.
    assert!((3..=4).contains(&granted), "{granted}");
}
