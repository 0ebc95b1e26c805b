//! The Cinder that the tests of plugins/cinder stand on: what they take for granted of it is shown here, once. The modules have the driver itself.

mod backups;
mod driver;
mod lives;
mod node_facts;
mod nova;
mod refusals;
mod sanity;
mod secrecy;

use serde_json::{Value, json};
use std::thread;
use std::time::{Duration, Instant};
use wasmount_tests::cinder::{Account, AccountOptions, Cinder};

/// Between two polls.
const LOOK: Duration = Duration::from_millis(100);

/// Time limit of what Cinder does meanwhile.
const PATIENCE: Duration = Duration::from_secs(60);

/// A token's life: longer than its first request takes on a busy machine.
const SHORT: Duration = Duration::from_secs(8);

fn becomes<T>(what: &str, cinder: &Cinder, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < PATIENCE, "{what}\n{}", cinder.log());
        thread::sleep(LOOK);
    }
}

fn create(account: &Account, token: &str, volume: Value) -> String {
    let created = account.ask("POST", "/v3/volumes", token, &json!({ "volume": volume }));
    let created = created.unwrap();
    assert_eq!(created.status, 202, "{created:?}");
    created.body["volume"]["id"].as_str().unwrap().to_owned()
}

/// The volume, once it is in this state.
fn at_rest(cinder: &Cinder, account: &Account, token: &str, id: &str, status: &str) -> Value {
    becomes(status, cinder, || {
        let volumes = account.volumes(token).unwrap();
        let mut found = volumes.into_iter().filter(|it| it["id"] == id);
        found.next().filter(|it| it["status"] == status)
    })
}

#[test]
fn real_cinder_creates_in_zones_and_fails_by_name() {
    let cinder = Cinder::shared().unwrap();
    let options = AccountOptions {
        quota_volumes: Some(3),
        ..AccountOptions::default()
    };
    let account = cinder.account(options).unwrap();
    let token = account.log_in().unwrap();
    let zone_b = json!({ "name": "a", "size": 1, "availability_zone": "zone-b" });
    let good = create(&account, &token, zone_b);
    let bad = create(
        &account,
        &token,
        json!({ "name": "fails-to-create", "size": 1 }),
    );
    let shared = create(
        &account,
        &token,
        json!({ "name": "b", "size": 1, "volume_type": "shared" }),
    );
    let volume = at_rest(&cinder, &account, &token, &good, "available");
    assert_eq!(volume["availability_zone"], "zone-b");
    at_rest(&cinder, &account, &token, &bad, "error");
    let volume = at_rest(&cinder, &account, &token, &shared, "available");
    assert_eq!(volume["multiattach"], true);
    let over = json!({ "volume": { "name": "c", "size": 1 } });
    let refused = account.ask("POST", "/v3/volumes", &token, &over).unwrap();
    assert_eq!(refused.status, 413, "{refused:?}");
}

#[test]
fn real_cinder_takes_a_name_twice() {
    let cinder = Cinder::shared().unwrap();
    let account = cinder.account(AccountOptions::default()).unwrap();
    let token = account.log_in().unwrap();
    let ids = [0, 1].map(|_| create(&account, &token, json!({ "name": "a", "size": 1 })));
    assert_ne!(ids[0], ids[1]);
    assert_eq!(account.volumes(&token).unwrap().len(), 2);
}

#[test]
fn real_cinder_refuses_a_token_that_has_ended() {
    let cinder = Cinder::shared().unwrap();
    let options = AccountOptions {
        token_lifetime: Some(SHORT),
        ..AccountOptions::default()
    };
    let account = cinder.account(options).unwrap();
    let token = account.log_in().unwrap();
    assert!(account.volumes(&token).unwrap().is_empty());
    becomes("the token does not end", &cinder, || {
        let answer = account.ask("GET", "/v3/volumes", &token, &Value::Null);
        (answer.unwrap().status == 401).then_some(())
    });
    let token = account.log_in().unwrap();
    assert!(account.volumes(&token).unwrap().is_empty());
}

#[test]
fn real_cinder_keeps_its_volumes_when_it_is_killed() {
    let mut cinder = Cinder::start().unwrap();
    let account = cinder.account(AccountOptions::default()).unwrap();
    let token = account.log_in().unwrap();
    let good = create(&account, &token, json!({ "name": "a", "size": 1 }));
    at_rest(&cinder, &account, &token, &good, "available");
    let slow = create(&account, &token, json!({ "name": "is-slow", "size": 1 }));
    let file = cinder.file_of(&slow);
    becomes("no creation begins", &cinder, || {
        file.exists().then_some(())
    });
    cinder.crash().unwrap();
    at_rest(&cinder, &account, &token, &good, "available");
    at_rest(&cinder, &account, &token, &slow, "error");
}
