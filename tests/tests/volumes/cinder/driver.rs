//! plugins/cinder in a real host, between it and a real Keystone and Cinder two proxies that count requests and treat them badly.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use wasmount_tests::cinder::{Account, AccountOptions, Cinder};
use wasmount_tests::documents;
use wasmount_tests::fault_proxy::{FaultProxy, FaultRate};
use wasmount_tests::host::{Host, HostOptions};

/// A login at Keystone.
const LOGIN: &str = "POST /v3/auth/tokens";

/// The node of the host.
pub(super) const NODE: &str = "test-node";

/// Cinder's unit, in bytes.
pub(super) const GIB: i64 = 1 << 30;

/// An account in a Cinder that tests share, proxies before that Cinder and its Keystone, and a host that knows only the proxies.
pub(super) struct Scene {
    // Ended before Cinder is: it may have devices open.
    pub(super) host: Host,
    pub(super) account: Account,
    pub(super) proxy: FaultProxy,
    keystone: FaultProxy,
    _cinder: Arc<Cinder>,
    _folder: tempfile::TempDir,
}

impl Scene {
    /// Where one request of `one_of` to Cinder meets a fault.
    pub(super) async fn of(
        one_of: usize,
        options: AccountOptions,
        settings: &[(&str, &str)],
    ) -> Self {
        wasmount_tests::root::needs_root();
        let folder = tempfile::tempdir().unwrap();
        let cinder = Cinder::shared().unwrap();
        let account = cinder.account(options).unwrap();
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        // Another one each time; a failing test shows it.
        let seed = u64::from(since.unwrap().subsec_nanos());
        let rate = |of| FaultRate { of, seed };
        let keystone = FaultProxy::start(account.keystone().into(), rate(0));
        let keystone = keystone.await.unwrap();
        let proxy = FaultProxy::start(cinder.cinder().into(), rate(one_of));
        let proxy = proxy.await.unwrap();
        let (id, at) = (account.credential(), keystone.address());
        let document = documents::cinder_at(folder.path(), at, proxy.address(), id, settings);
        let host = Host::start(HostOptions {
            backends: vec![document.unwrap()],
            any_paths: true,
            ..HostOptions::default()
        });
        Self {
            host: host.unwrap(),
            account,
            proxy,
            keystone,
            _cinder: cinder,
            _folder: folder,
        }
    }

    /// Tokens that the host took.
    pub(super) fn logins(&self) -> usize {
        self.keystone.answered(LOGIN)
    }

    /// Nothing that the driver created is left in Cinder.
    pub(super) fn assert_nothing_left(&self) {
        for kind in ["volumes", "snapshots", "attachments"] {
            assert_eq!(self.names(kind), [""; 0], "{kind}\n{}", self.proxy);
        }
    }

    /// Names of all objects of a kind, or their ids if they have none.
    pub(super) fn names(&self, kind: &str) -> Vec<String> {
        let token = self.account.log_in().unwrap();
        self.account.names(&token, kind).unwrap()
    }
}
