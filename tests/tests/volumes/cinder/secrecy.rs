//! The secret of an application credential, the password of a user, and Keystone's tokens are nowhere that a person, a program or the plugin may look.

use super::driver::{GIB, Scene, SceneOptions};
use super::lives::{ONE_OF, SHORT, live_at_once};
use std::time::{Duration, Instant};
use tokio::time::sleep;
use wasmount_tests::cinder::{AccountOptions, TOKEN_PREFIX};
use wasmount_tests::fault_proxy::Fault;
use wasmount_tests::guest_memory::HostMemory;
use wasmount_tests::health::Health;
use wasmount_tests::orchestrator::{Orchestrator, Volume, patiently};
use wasmount_tests::requests;
use wasmount_tests::retrying_proxy::RETRIED;
use wasmount_tests::secret_search::{SecretSearch, logging_everything};

/// The driver of [`Scene`].
const DRIVER: &str = "cinder.csi.openstack.org";

/// What begins the names of volumes that Cinder takes 5 s to create (`tests/python/openstack/file_driver.py`).
const SLOW: &str = "is-slow-for-a-plugin-that-waits";

/// Looks at the memory of a plugin, each during the creation of one such volume, until one ends before that: a look takes a second on an idle machine.
const LOOKS: usize = 10;

/// Until Cinder has a volume. Generous: other tests share the machine.
const CREATED: Duration = Duration::from_secs(60);

/// Between two looks.
const LOOK: Duration = Duration::from_millis(20);

impl Scene {
    /// What must not be shown.
    fn secrets(&self) -> SecretSearch {
        let token = self.account.log_in().unwrap();
        assert!(token.starts_with(TOKEN_PREFIX), "tokens have another form");
        SecretSearch::of([self.account.credential().value(), TOKEN_PREFIX]).unwrap()
    }
}

/// A volume that a pod uses, so that the node has a journal.
async fn in_use(scene: &Scene, orchestrator: &Orchestrator) -> Volume {
    let create = || orchestrator.create(requests::create("in-use", GIB));
    let (id, _) = patiently(&RETRIED, create).await.unwrap();
    let attach = || orchestrator.attach(&id, &scene.node);
    patiently(&RETRIED, attach).await.unwrap();
    let volume = orchestrator.place("in-use", id.clone()).unwrap();
    orchestrator.set_up(&volume).await.unwrap();
    volume
}

/// Lives on a bad network until there were so many logins, the first of which fails; then the search.
async fn live_and_search(account: AccountOptions, logins: usize) {
    let health = Health::at_a_free_port().unwrap();
    let mut scene = Scene::with(SceneOptions {
        one_of: ONE_OF,
        account,
        more: logging_everything(),
        ..SceneOptions::default()
    })
    .await;
    scene.host.options().health = health.address();
    scene.host.restart().unwrap();
    scene.keystone.force(Fault::BrokenAfter);
    let orchestrator = scene.host.orchestrator().await.unwrap();
    let volume = in_use(&scene, &orchestrator).await;
    loop {
        live_at_once(&scene, &RETRIED).await;
        if scene.logins() >= logins {
            break;
        }
    }
    let secrets = scene.secrets();
    let shown = secrets.shown_by(&scene.host, &health, DRIVER).unwrap();
    assert_eq!(shown, [""; 0]);
    assert!(scene.host.log().contains("login failed"));

    orchestrator.unpublish(&volume).await.unwrap();
    orchestrator.unstage(&volume).await.unwrap();
    let detach = || orchestrator.detach(&volume.id, &scene.node);
    patiently(&RETRIED, detach).await.unwrap();
    let delete = || orchestrator.delete(&volume.id);
    patiently(&RETRIED, delete).await.unwrap();
    scene.assert_nothing_left();
    scene.host.terminate().unwrap();
    assert_eq!(secrets.kept_by(&scene.host).unwrap(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_no_secret_or_token_of_cinder_is_shown() {
    let account = AccountOptions {
        token_lifetime: Some(SHORT),
        ..AccountOptions::default()
    };
    // One that fails, the first, and one after the end of its token.
    live_and_search(account, 3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_no_password_of_keystone_is_shown() {
    let account = AccountOptions {
        has_password: true,
        ..AccountOptions::default()
    };
    // One that fails, and the first.
    live_and_search(account, 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_a_plugins_memory_has_no_secret_of_cinder() {
    let scene = Scene::of(0, AccountOptions::default(), &[]).await;
    let orchestrator = scene.host.orchestrator().await.unwrap();
    let secrets = scene.secrets();
    for number in 0..LOOKS {
        let name = format!("{SLOW}-{number}");
        let (creator, request) = (orchestrator.clone(), requests::create(&name, GIB));
        let creating = tokio::spawn(async move { creator.create(request).await });
        let start = Instant::now();
        while !scene.names("volumes").contains(&name) {
            assert!(start.elapsed() < CREATED, "{}", scene.host.log());
            sleep(LOOK).await;
        }
        let memory = HostMemory::of(scene.host.id()).unwrap();
        let is_over = creating.is_finished();
        let (id, _) = creating.await.unwrap().unwrap();
        orchestrator.delete(&id).await.unwrap();
        if is_over {
            continue;
        }
        let known = SecretSearch::of([name.as_str()]).unwrap();
        assert_eq!(memory.linear.found(&known), known.all());
        assert_eq!(memory.linear.found(&secrets), [].into());
        // A look at memory finds what is there.
        assert_eq!(memory.other.found(&secrets), secrets.all());
        return scene.assert_nothing_left();
    }
    panic!("each volume was created before a look at memory ended");
}
