//! Runs tests of mounts: as root, in both forms of the mounter, each in a mount namespace of its own.

use super::{Bench, Form};
use rustix::mount::{MountPropagationFlags, mount_bind, mount_change};
use rustix::thread::UnshareFlags;
use std::fs;
use std::future::Future;
use std::path::Path;
use std::sync::RwLock;

/// Held while a test runs: exclusively by one that must run alone. A failed test does not fail others, so poisoning is ignored.
static PROCESS: RwLock<()> = RwLock::new(());

/// Runs a test in both forms of the mounter, each time in a mount namespace that ends with the test.
pub(crate) fn privileged<F: Future<Output = ()>>(
    test: impl Fn(Bench) -> F + Clone + Send + 'static,
) {
    let _shared = PROCESS.read();
    in_both_forms(test);
}

/// The same for a test of which other tests must not see the pools: a removal queries the drivers of the whole process.
pub(crate) fn privileged_alone<F: Future<Output = ()>>(
    test: impl Fn(Bench) -> F + Clone + Send + 'static,
) {
    let _alone = PROCESS.write();
    in_both_forms(test);
}

fn in_both_forms<F: Future<Output = ()>>(test: impl Fn(Bench) -> F + Clone + Send + 'static) {
    for form in [Form::Inside, Form::OverSocket] {
        privileged_in(form, test.clone());
    }
}

fn privileged_in<F: Future<Output = ()>>(form: Form, test: impl Fn(Bench) -> F + Send + 'static) {
    assert!(
        rustix::process::geteuid().is_root(),
        "this test needs root (CAP_SYS_ADMIN); leave it out with `--skip privileged_`"
    );
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_owned();
    // A new thread: a namespace belongs to a thread and to the threads that it starts.
    let thread = std::thread::Builder::new().name(format!("mounter {form:?}"));
    let thread = thread.spawn(move || {
        #[allow(
            deprecated,
            reason = "the unsafe successor is about FILES, which is not asked for"
        )]
        rustix::thread::unshare(UnshareFlags::NEWNS).unwrap();
        mount_change(
            "/",
            MountPropagationFlags::PRIVATE | MountPropagationFlags::REC,
        )
        .unwrap();
        for name in ["pool", "kubelet", "run", "outside"] {
            fs::create_dir(path.join(name)).unwrap();
        }
        share(&path.join("kubelet"));
        let bench = Bench::start(path.clone(), form, &[path.join("kubelet")], super::POOL);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(test(bench));
    });
    if let Err(panic) = thread.unwrap().join() {
        std::panic::resume_unwind(panic);
    }
}

/// Makes a directory a shared mount, as a kubelet directory is.
pub(super) fn share(path: &Path) {
    mount_bind(path, path).unwrap();
    mount_change(path, MountPropagationFlags::SHARED).unwrap();
}
