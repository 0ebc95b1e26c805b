//! A word that no other process has: who holds a lease, and whose write a record was.

use crate::error::KubernetesError;
use rustix::rand::{GetRandomFlags, getrandom};

/// 16 hexadecimal digits of the kernel's randomness.
pub(crate) fn word() -> Result<String, KubernetesError> {
    let mut bytes = [0; 8];
    // So few bytes are never cut short (getrandom(2)).
    getrandom(&mut bytes, GetRandomFlags::empty()).map_err(KubernetesError::NoRandomness)?;
    Ok(format!("{:016x}", u64::from_ne_bytes(bytes)))
}

#[cfg(test)]
mod tests {
    #[test]
    fn no_two_words_are_the_same() {
        let (one, other) = (super::word().unwrap(), super::word().unwrap());
        assert_eq!(one.len(), 16);
        assert_ne!(one, other);
    }
}
