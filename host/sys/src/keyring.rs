//! Keys for the kernel's own clients of storage systems (`add_key(2)`).

use crate::check;
use libc::{KEY_SPEC_THREAD_KEYRING as THREAD, SYS_add_key, syscall};
use rustix::io::Result;
use std::ffi::CStr;

/// Gives the kernel a key that only this thread has, and that ends with the thread. `ENODEV`: the module that has this type of key is not loaded.
pub fn add_key_of_thread(kind: &CStr, description: &CStr, key: &[u8]) -> Result<()> {
    let (kind, description) = (kind.as_ptr(), description.as_ptr());
    let (bytes, length) = (key.as_ptr(), key.len());
    // SAFETY: the strings end with NUL, and the kernel reads as many bytes of the key as it has.
    let added = unsafe { syscall(SYS_add_key, kind, description, bytes, length, THREAD) };
    check(added).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;

    #[test]
    fn a_key_is_added_for_this_thread() {
        match add_key_of_thread(c"user", c"wasmount-test", b"value") {
            // Containers may not use keyrings by their default profile (seccomp).
            Ok(()) | Err(Errno::PERM | Errno::NOSYS) => {}
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn a_key_of_an_unknown_type_is_refused() {
        let refused = add_key_of_thread(c"wasmount-none", c"wasmount-test", b"value");
        assert!(matches!(
            refused,
            Err(Errno::NODEV | Errno::PERM | Errno::NOSYS)
        ));
    }
}
