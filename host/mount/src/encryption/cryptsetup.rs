//! `cryptsetup` for one device: the passphrase goes through its standard input, and is never in its arguments.
//!
//! It is the program of the host's own image, as `mkfs` is: it speaks to the kernel alone, and not to a daemon of the node.

use super::header::{CIPHER, Metadata, label};
use super::map::MapName;
use crate::block::BlockDevice;
use crate::tools::{ToolCall, ToolOutput, tool_call};
use std::ffi::OsString;
use std::time::Duration;
use uuid::Uuid;
use wasmount_core::fault::{Blame, Owner};
use wasmount_core::mounter::MountError;
use wasmount_core::plan::encryption::LUKS_KEY;
use wasmount_core::secrets::SecretOptions;

const PROGRAM: &str = "cryptsetup";
/// Deadline of a call. 30 s: it derives a key, which takes less than a second, and writes 16 MiB at most. A call has 60 s by default.
const DEADLINE: Duration = Duration::from_secs(30);
/// Longest passphrase in bytes: the longest that `cryptsetup` reads from a terminal, so that an administrator can open the device by hand.
const PASSPHRASE_BYTES: usize = 512;

/// Exit statuses of `cryptsetup` (cryptsetup(8), RETURN CODES).
const WRONG_PARAMETERS: i32 = 1;
const NO_PERMISSION: i32 = 2;
const OUT_OF_MEMORY: i32 = 3;

/// How a header is made. The key is derived by Argon2id with the second parameters that RFC 9106 (4) recommends, for places with little memory: 64 MiB, on
/// at most 4 threads. They are the same on each node, so a device that one node encrypts can be opened by the smallest. One pass more than in the RFC,
/// since `cryptsetup` takes no fewer.
const FORMAT: [&str; 8] = [
    "--pbkdf=argon2id",
    "--pbkdf-memory=65536",
    "--pbkdf-parallel=4",
    "--pbkdf-force-iterations=4",
    "--hash=sha256",
    "--key-size=512",
    "--use-urandom",
    // Any size of a device, and of the disk that a copy lies on, is a multiple of it.
    "--sector-size=512",
];
/// No lock file of the header: the root of the mounter's container is read-only, and the device has no other user.
const NO_LOCKS: &str = "--disable-locks";

/// The passphrase of a volume.
pub(super) struct Passphrase<'s>(&'s str);

/// `cryptsetup` on a device.
#[derive(Clone, Copy)]
pub(super) struct Cryptsetup<'d> {
    pub(super) device: &'d BlockDevice,
}

impl<'s> Passphrase<'s> {
    /// The whole value counts, with its line breaks.
    pub(super) fn of(secrets: &'s SecretOptions) -> Result<Self, MountError> {
        let value = secrets.get(LUKS_KEY).unwrap_or_default();
        if (1..=PASSPHRASE_BYTES).contains(&value.len()) {
            return Ok(Self(value));
        }
        let reason = format!("it is empty, or longer than {PASSPHRASE_BYTES} bytes");
        let what = format!("the secret for `{LUKS_KEY}`");
        let blame = Blame::Of(Owner::Secret);
        Err(MountError::invalid(what, reason, blame))
    }
}

impl Cryptsetup<'_> {
    /// Makes a header with one key.
    pub(super) fn format(&self, uuid: Uuid, passphrase: &Passphrase<'_>) -> Result<(), MountError> {
        let uuid = format!("--uuid={uuid}");
        let label = format!("--label={}", label::NEW);
        let cipher = format!("--cipher={CIPHER}");
        let own = [
            "luksFormat",
            "--batch-mode",
            "--type=luks2",
            "--key-file=-",
            &uuid,
            &label,
            &cipher,
        ];
        let call = self.call(&[&own[..], &FORMAT].concat());
        call.succeeded(&call.run_with_input(passphrase.0.as_bytes())?)
    }

    /// The metadata of the header, as `cryptsetup` understands it.
    pub(super) fn metadata(&self) -> Result<Metadata, MountError> {
        let call = self.dump();
        let output = call.run()?;
        match parse(&output) {
            Some(metadata) => Ok(metadata),
            None if output.status == 0 || output.status == WRONG_PARAMETERS => {
                let said = output.excerpt();
                let reason = format!(
                    "its LUKS header is damaged, of LUKS1, or larger than this host reads; restore it from a backup of the header; {said}"
                );
                Err(MountError::damaged(self.device, reason))
            }
            None => Err(call.failed(&output)),
        }
    }

    /// How many keys the header has. `None`: it cannot be read as a whole.
    pub(super) fn keys(&self) -> Result<Option<usize>, MountError> {
        let output = self.dump().run()?;
        Ok(parse(&output).map(|metadata| metadata.keys()))
    }

    /// Opens the device as a map. The key lies in the map and not in the keyring of the kernel, so that the map can be expanded without the passphrase.
    pub(super) fn open(
        &self,
        name: &MapName,
        passphrase: &Passphrase<'_>,
        read_only: bool,
    ) -> Result<(), MountError> {
        let mut own = vec!["open", "--type=luks2", "--disable-keyring", "--key-file=-"];
        own.extend(read_only.then_some("--readonly"));
        let mut call = self.call(&own);
        call.arguments.push(name.as_str().into());
        self.opened(&call, &call.run_with_input(passphrase.0.as_bytes())?)
    }

    /// Whether the passphrase opens the device; nothing is opened.
    pub(super) fn test(&self, passphrase: &Passphrase<'_>) -> Result<(), MountError> {
        let own = ["open", "--type=luks2", "--test-passphrase", "--key-file=-"];
        let call = self.call(&own);
        self.opened(&call, &call.run_with_input(passphrase.0.as_bytes())?)
    }

    pub(super) fn set_label(&self, label: &str) -> Result<(), MountError> {
        let call = self.call(&["config", &format!("--label={label}")]);
        call.succeeded(&call.run()?)
    }

    /// Expands the map to the size of the device.
    pub(super) fn resize(&self, name: &MapName) -> Result<(), MountError> {
        let call = ToolCall {
            arguments: ["resize", NO_LOCKS, "--batch-mode", name.as_str()]
                .map(OsString::from)
                .into(),
            ..self.call(&[])
        };
        call.succeeded(&call.run()?)
    }

    fn dump(&self) -> ToolCall {
        self.call(&["luksDump", "--dump-json-metadata"])
    }

    fn call(&self, own: &[&str]) -> ToolCall {
        let arguments = [own, &[NO_LOCKS]].concat();
        tool_call(PROGRAM, &arguments, &self.device.path, DEADLINE)
    }

    fn opened(&self, call: &ToolCall, output: &ToolOutput) -> Result<(), MountError> {
        match output.status {
            0 => Ok(()),
            NO_PERMISSION => Err(MountError::unusable(
                self.device,
                "its LUKS header does not take this passphrase; nothing was changed; give the volume the Secret with which it was encrypted",
            )),
            OUT_OF_MEMORY => Err(MountError::out_of_resources(
                format!("opening {}", self.device),
                "the memory to check its passphrase is missing; raise the limit of the mounter's container",
            )),
            _ => Err(call.failed(output)),
        }
    }
}

/// Whether a map is in use, by what `dmsetup` said: its exit status is the same for all failures.
pub(super) fn is_busy(output: &ToolOutput) -> bool {
    output.stderr.contains("busy")
}

fn parse(output: &ToolOutput) -> Option<Metadata> {
    let is_read = output.status == 0;
    serde_json::from_slice(&output.stdout)
        .ok()
        .filter(|_| is_read)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_passphrase_has_1_to_512_bytes() {
        let secrets =
            |value: &str| SecretOptions::from_iter([(LUKS_KEY.to_owned(), value.to_owned())]);
        for value in ["k", "with\na line break\n", &"k".repeat(PASSPHRASE_BYTES)] {
            let secrets = secrets(value);
            assert_eq!(Passphrase::of(&secrets).map(|it| it.0).ok(), Some(value));
        }
        for secrets in [
            SecretOptions::default(),
            secrets(""),
            secrets(&"k".repeat(PASSPHRASE_BYTES + 1)),
        ] {
            let refused = Passphrase::of(&secrets).map(|it| it.0).unwrap_err();
            assert!(refused.to_string().contains("luks-key"), "{refused}");
        }
    }
}
