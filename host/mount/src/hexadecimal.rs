//! Hexadecimal text. Not the crate `hex`: the privileged process is built of as few crates as possible (`tests/privileged-crates.txt`).

/// Bytes as lower case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
