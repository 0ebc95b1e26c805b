//! plugins/cinder in a real host. Between it and a real Keystone, Cinder and Nova are proxies that count requests and treat them badly.

use crate::storage::begin;
use std::ffi::OsString;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use wasmount_tests::cinder::{Account, AccountOptions, Cinder};
use wasmount_tests::documents::{self, Cloud};
use wasmount_tests::fault_proxy::{FaultProxy, FaultRate};
use wasmount_tests::host::{Host, HostOptions};

/// A login at Keystone.
const LOGIN: &str = "POST /v3/auth/tokens";

/// The node of the host, if it is not an instance.
const NODE: &str = "test-node";

/// Until Cinder has deleted what it was asked to. Generous: other tests share the machine.
const DELETED: Duration = Duration::from_secs(60);

/// Between two looks.
const LOOK: Duration = Duration::from_millis(100);

/// Cinder's unit, in bytes.
pub(super) const GIB: i64 = 1 << 30;

/// An account in a Cinder that tests share, proxies before that Cinder, its Keystone and its Nova, and a host that knows only the proxies.
pub(super) struct Scene {
    // Ended before Cinder is: it may have devices open.
    pub(super) host: Host,
    pub(super) account: Account,
    /// The node that volumes are attached to: the host, or an instance of Nova.
    pub(super) node: String,
    pub(super) proxy: FaultProxy,
    pub(super) nova: Option<FaultProxy>,
    pub(super) keystone: FaultProxy,
    pub(super) cinder: Arc<Cinder>,
    _folder: tempfile::TempDir,
}

/// What a test chooses of its scene.
#[derive(Default)]
pub(super) struct SceneOptions<'a> {
    /// One request of so many to Cinder or Nova meets a fault; 0: none.
    pub(super) one_of: usize,
    /// The same for Keystone.
    pub(super) keystone_one_of: usize,
    pub(super) account: AccountOptions,
    pub(super) settings: &'a [(&'a str, &'a str)],
    /// Further arguments of the host.
    pub(super) more: Vec<OsString>,
}

impl Scene {
    /// Where one request of `one_of` to Cinder meets a fault, and Cinder attaches.
    pub(super) async fn of(
        one_of: usize,
        options: AccountOptions,
        settings: &[(&str, &str)],
    ) -> Self {
        Self::with(SceneOptions {
            one_of,
            account: options,
            settings,
            ..SceneOptions::default()
        })
        .await
    }

    /// The same with more to choose.
    pub(super) async fn with(options: SceneOptions<'_>) -> Self {
        let cinder = Cinder::shared().unwrap();
        let account = cinder.account(options.account).unwrap();
        Self::start(cinder, account, None, options).await
    }

    /// Where one request of `one_of` to Cinder or Nova meets a fault, and Nova attaches, to an instance.
    pub(super) async fn on_instance(
        cinder: Arc<Cinder>,
        one_of: usize,
        settings: &[(&str, &str)],
    ) -> Self {
        cinder.nova().unwrap();
        let account = cinder.account(AccountOptions::default()).unwrap();
        let token = account.log_in().unwrap();
        let instance = account.create_instance(&token).unwrap();
        let options = SceneOptions {
            one_of,
            settings,
            ..SceneOptions::default()
        };
        Self::start(cinder, account, Some(instance), options).await
    }

    async fn start(
        cinder: Arc<Cinder>,
        account: Account,
        instance: Option<String>,
        options: SceneOptions<'_>,
    ) -> Self {
        let SceneOptions {
            one_of,
            keystone_one_of,
            settings,
            more,
            ..
        } = options;
        begin();
        let folder = tempfile::tempdir().unwrap();
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        // Another one each time; a failing test shows it.
        let seed = u64::from(since.unwrap().subsec_nanos());
        let rate = |of| FaultRate { of, seed };
        let keystone = FaultProxy::start(account.keystone().into(), rate(keystone_one_of));
        let keystone = keystone.await.unwrap();
        let proxy = FaultProxy::start(cinder.cinder().into(), rate(one_of));
        let proxy = proxy.await.unwrap();
        let nova = match &instance {
            None => None,
            Some(_) => {
                let nova = FaultProxy::start(cinder.nova().unwrap().into(), rate(one_of));
                Some(nova.await.unwrap())
            }
        };
        let cloud = Cloud {
            keystone: keystone.address(),
            cinder: proxy.address(),
            nova: nova.as_ref().map(FaultProxy::address),
            credential: account.credential(),
            settings,
        };
        let document = documents::cinder_at(folder.path(), &cloud);
        let host = Host::start(HostOptions {
            backends: vec![document.unwrap()],
            any_paths: true,
            more,
            ..HostOptions::default()
        });
        Self {
            host: host.unwrap(),
            account,
            node: instance.unwrap_or_else(|| NODE.to_owned()),
            proxy,
            nova,
            keystone,
            cinder,
            _folder: folder,
        }
    }

    /// Tokens that the host took.
    pub(super) fn logins(&self) -> usize {
        self.keystone.answered(LOGIN)
    }

    /// Tokens that the host did not hear of.
    pub(super) fn unheard_logins(&self) -> usize {
        self.keystone.unheard(LOGIN)
    }

    /// Nothing that the driver created is left in Cinder, once it has deleted what it was asked to: a call does not wait for the end of a twin.
    pub(super) fn assert_nothing_left(&self) {
        let start = Instant::now();
        for kind in ["volumes", "snapshots", "backups", "attachments"] {
            let mut left = self.names(kind);
            while !left.is_empty() && start.elapsed() < DELETED {
                thread::sleep(LOOK);
                left = self.names(kind);
            }
            assert_eq!(left, [""; 0], "{kind}\n{}", self.proxy);
        }
    }

    /// Names of all objects of a kind, or their ids if they have none.
    pub(super) fn names(&self, kind: &str) -> Vec<String> {
        let token = self.account.log_in().unwrap();
        self.account.names(&token, kind).unwrap()
    }
}
