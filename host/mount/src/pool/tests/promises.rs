//! Capacity and quotas.

use super::*;

const MIB: u64 = 1 << 20;

/// Whether the project quota of the file system was used.
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
fn a_promise_of_a_tree_that_was_in_the_trash_dies_at_the_next_start() {
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
    // Half of it twice does not fit with half of it.
    let half = most / 2;
    promise(&fixture, "a", Some(half));
    assert!(fixture.capacity().available_bytes <= before.total_bytes - half);
    let rest = before.total_bytes - half;
    fixture.done(create("b"));
    assert_eq!(
        kind(fixture.call(set_quota("b", Some(rest + MIB)))),
        "no space"
    );
    // What is promised already is not asked for again.
    promise(&fixture, "a", Some(half));
    assert_eq!(fixture.promised(), half);
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
    // All that a tenant has is the content of its tree.
    std::fs::create_dir(fixture.path("a/.wasmount")).unwrap();
    std::fs::write(fixture.path("a/.wasmount/ledger"), "{}").unwrap();
    let fixture = fixture.restarted();
    assert_eq!(fixture.promised(), MIB);
}

#[test]
fn eight_callers_never_promise_more_than_there_is() {
    let fixture = Fixture::new();
    let total = fixture.capacity().total_bytes;
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
    assert!(fixture.promised() <= total && granted >= 3);
}
