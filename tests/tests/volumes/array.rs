//! plugins/array against a storage array on the network: csi-sanity, and lives through a proxy that treats requests badly. No volume is created twice
//! and none is lost, no session stays behind, no call is final that has changed something, and no password, token or private key is anywhere.

mod attached;
mod guest_memory;
mod kills;
mod lives;
mod sanity;
mod secrecy;

use std::ffi::OsString;
use wasmount_tests::array::{Array, ArrayOptions, PASSWORD, TOKEN_PREFIX};
use wasmount_tests::documents;
use wasmount_tests::fault_proxy::{FaultProxy, FaultRate};
use wasmount_tests::host::{Host, HostOptions};
use wasmount_tests::secret_search::SecretSearch;
use wasmount_tests::tls_front::TlsFront;

/// The request of a login: if its answer is lost, nobody can end the session.
const LOGIN: &str = "POST /api/sessions";

/// An array, the proxy before it, TLS before that, and a host that knows only the latter.
struct Scene {
    array: Array,
    proxy: FaultProxy,
    front: TlsFront,
    host: Host,
    _folder: tempfile::TempDir,
}

impl Scene {
    /// Where one request of `one_of` meets a fault.
    async fn of(one_of: usize, options: ArrayOptions) -> Self {
        Self::with(one_of, options, Vec::new(), documents::OF_SANITY_5_4).await
    }

    /// The same, with further arguments of the host, and without some of CSI's capabilities.
    async fn with(
        one_of: usize,
        options: ArrayOptions,
        more: Vec<OsString>,
        hidden: &[&str],
    ) -> Self {
        wasmount_tests::root::needs_root();
        let folder = tempfile::tempdir().unwrap();
        let array = Array::start(options).await.unwrap();
        let rate = FaultRate {
            of: one_of,
            seed: seed(),
        };
        let proxy = FaultProxy::start(array.address(), rate).await.unwrap();
        let front = TlsFront::start(proxy.address()).await.unwrap();
        let document = documents::array_behind(folder.path(), &front, hidden).unwrap();
        let host = Host::start(HostOptions {
            backends: vec![document],
            any_paths: true,
            more,
            ..HostOptions::default()
        });
        Self {
            array,
            proxy,
            front,
            host: host.unwrap(),
            _folder: folder,
        }
    }

    /// What must not be shown: the password, any token, the private key of the host in each form.
    fn secrets(&self) -> SecretSearch {
        let texts = [PASSWORD, TOKEN_PREFIX].map(|text| text.as_bytes().to_vec());
        SecretSearch::of(texts.into_iter().chain(self.front.key_forms())).unwrap()
    }

    /// Ends the host on a sound network: it logs out, and leaves no trace of its credentials.
    fn end(mut self) {
        self.proxy.mend();
        self.host.terminate().unwrap();
        let counts = self.array.counts();
        let unheard = self.proxy.unheard(LOGIN);
        assert!(
            counts.sessions <= unheard,
            "{} sessions are left, {unheard} answers to logins were lost; {}",
            counts.sessions,
            self.proxy
        );
        assert_eq!(counts.refused_logins, 0, "{}", self.proxy);
        let kept = self.secrets().kept_by(&self.host).unwrap();
        assert_eq!(kept, [""; 0]);
    }
}

/// A new one each time; a failing test shows it.
fn seed() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    u64::from(now.unwrap().subsec_nanos())
}
