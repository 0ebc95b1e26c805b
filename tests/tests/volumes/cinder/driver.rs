//! plugins/cinder in a real host, between it and a real Keystone and Cinder two proxies that count requests and treat them badly.

use std::time::{SystemTime, UNIX_EPOCH};
use wasmount_tests::cinder::{Cinder, CinderOptions};
use wasmount_tests::documents;
use wasmount_tests::fault_proxy::{FaultProxy, FaultRate};
use wasmount_tests::host::{Host, HostOptions};

/// A login at Keystone.
const LOGIN: &str = "POST /v3/auth/tokens";

/// The node of the host.
pub(super) const NODE: &str = "test-node";

/// Cinder's unit, in bytes.
pub(super) const GIB: i64 = 1 << 30;

/// A Cinder, the proxies before it and its Keystone, and a host that knows only the proxies.
pub(super) struct Scene {
    // Ended before Cinder is: it may have devices open.
    pub(super) host: Host,
    pub(super) cinder: Cinder,
    pub(super) proxy: FaultProxy,
    keystone: FaultProxy,
    _folder: tempfile::TempDir,
}

impl Scene {
    /// Where one request of `one_of` to Cinder meets a fault.
    pub(super) async fn of(
        one_of: usize,
        options: CinderOptions,
        settings: &[(&str, &str)],
    ) -> Self {
        wasmount_tests::root::needs_root();
        let folder = tempfile::tempdir().unwrap();
        let cinder = Cinder::start(options).unwrap();
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        // Another one each time; a failing test shows it.
        let seed = u64::from(since.unwrap().subsec_nanos());
        let rate = |of| FaultRate { of, seed };
        let keystone = FaultProxy::start(cinder.keystone().into(), rate(0));
        let keystone = keystone.await.unwrap();
        let proxy = FaultProxy::start(cinder.cinder().into(), rate(one_of));
        let proxy = proxy.await.unwrap();
        let addresses = (keystone.address(), proxy.address());
        let document =
            documents::cinder_at(folder.path(), addresses.0, addresses.1, settings).unwrap();
        let host = Host::start(HostOptions {
            backends: vec![document],
            any_paths: true,
            ..HostOptions::default()
        });
        Self {
            host: host.unwrap(),
            cinder,
            proxy,
            keystone,
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
        let token = self.cinder.log_in().unwrap();
        self.cinder.names(&token, kind).unwrap()
    }
}
