//! What the kernel is told to connect to a controller: options in one write to `/dev/nvme-fabrics` (`nvmf_parse_options` of
//! drivers/nvme/host/fabrics.c).

use crate::initiator::NvmeHost;
use crate::plan::attach::TargetName;
use std::net::SocketAddr;
use zeroize::Zeroizing;

/// Longest key, in bytes: the longest hash has 64 bytes, with a checksum of 4 in base64, and what is around it (TP 8006, 8.13.5.8).
const KEY_BYTES: usize = 128;
/// Seconds between two attempts to connect again to a controller that was lost: the network is back for at most so long before the path is.
const RECONNECT_DELAY: u32 = 5;
/// Seconds after which what waits for a namespace without a path fails: as long as the kernel waits by its own default before it gives up a
/// controller (`NVMF_DEF_CTRL_LOSS_TMO`). An array restarts within it, and what hangs on a lost one ends.
const FAIL_AFTER: u32 = 600;
/// The kernel never gives up a lost controller: nobody would connect to it again for a volume that stays in use. The detach removes it.
const NEVER: i32 = -1;

/// Keys of DH-HMAC-CHAP, as nvme-cli writes them: `DHHC-1:00:..:`.
#[derive(Clone, Copy, Default)]
pub(super) struct Keys<'a> {
    /// The host's, with which it proves who it is.
    pub(super) host: Option<&'a str>,
    /// The controller's, with which that proves who it is.
    pub(super) controller: Option<&'a str>,
}

/// Why the kernel must not be told so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum InvalidConnect {
    // The kernel would write such a key to its log.
    #[error(
        "it is no key of DH-HMAC-CHAP: that looks like `DHHC-1:00:..:`, as `nvme gen-dhchap-key` prints it"
    )]
    Key,
    #[error("the controller's key needs the host's")]
    ControllerKeyAlone,
}

/// The options for a controller. `subsystem`: its NQN, which has no comma.
pub(super) fn options(
    address: SocketAddr,
    subsystem: &TargetName,
    host: &NvmeHost,
    keys: Keys<'_>,
) -> Result<Zeroizing<String>, InvalidConnect> {
    let (ip, port) = (address.ip(), address.port());
    let NvmeHost { nqn, id } = host;
    let subsystem = subsystem.as_str();
    let mut options = Zeroizing::new(format!(
        "transport=tcp,traddr={ip},trsvcid={port},nqn={subsystem},hostnqn={nqn},hostid={id},reconnect_delay={RECONNECT_DELAY},ctrl_loss_tmo={NEVER},fast_io_fail_tmo={FAIL_AFTER}"
    ));
    if keys.host.is_none() && keys.controller.is_some() {
        return Err(InvalidConnect::ControllerKeyAlone);
    }
    // Beforehand, so that no copy with a secret stays in memory.
    options.reserve_exact(2 * (KEY_BYTES + ",dhchap_ctrl_secret=".len()));
    let named = [
        (",dhchap_secret=", keys.host),
        (",dhchap_ctrl_secret=", keys.controller),
    ];
    for (option, key) in named {
        if let Some(key) = key {
            check_key(key)?;
            options.push_str(option);
            options.push_str(key);
        }
    }
    Ok(options)
}

fn check_key(key: &str) -> Result<(), InvalidConnect> {
    let is_base64 = |text: &str| {
        let known = |c: char| c.is_ascii_alphanumeric() || ['+', '/', '='].contains(&c);
        !text.is_empty() && text.chars().all(known)
    };
    let is_key = |key: &str| {
        let (hash, rest) = key.strip_prefix("DHHC-1:")?.split_once(':')?;
        let secret = rest.strip_suffix(':')?;
        let is_hash = ["00", "01", "02", "03"].contains(&hash);
        (is_hash && is_base64(secret) && key.len() <= KEY_BYTES).then_some(())
    };
    is_key(key).ok_or(InvalidConnect::Key)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NQN: &str = "nqn.2010-06.com.acme:array";
    const KEY: &str = "DHHC-1:00:Jc/My1o0qtLCWRp+sHhAVafdfaS7YQOMYhk9zSmlatobqB8C:";

    fn options(address: &str, keys: Keys<'_>) -> Result<String, InvalidConnect> {
        let host = NvmeHost {
            nqn: "nqn.2014-08.org.nvmexpress:uuid:a".to_owned(),
            id: uuid::Uuid::from_u128(1),
        };
        let subsystem = TargetName::parse("nvme", NQN, &["nqn."]).unwrap();
        let options = super::options(address.parse().unwrap(), &subsystem, &host, keys);
        options.map(|options| options.to_string())
    }

    fn keys<'a>(host: Option<&'a str>, controller: Option<&'a str>) -> Keys<'a> {
        Keys { host, controller }
    }

    #[test]
    fn a_controller_is_named_to_the_kernel() {
        let common = "nqn=nqn.2010-06.com.acme:array,hostnqn=nqn.2014-08.org.nvmexpress:uuid:a,hostid=00000000-0000-0000-0000-000000000001,reconnect_delay=5,ctrl_loss_tmo=-1,fast_io_fail_tmo=600";
        assert_eq!(
            options("10.1.2.3:4420", Keys::default()).unwrap(),
            format!("transport=tcp,traddr=10.1.2.3,trsvcid=4420,{common}")
        );
        assert_eq!(
            options("[fd00::1]:4421", keys(Some(KEY), Some(KEY))).unwrap(),
            format!(
                "transport=tcp,traddr=fd00::1,trsvcid=4421,{common},dhchap_secret={KEY},dhchap_ctrl_secret={KEY}"
            )
        );
    }

    #[test]
    fn what_is_no_key_is_rejected_and_not_shown() {
        let long = format!("DHHC-1:00:{}:", "a".repeat(KEY_BYTES));
        for key in [
            "",
            "secret",
            "DHHC-1:00:abc",
            "DHHC-1:04:abcd:",
            "DHHC-1:00::",
            "DHHC-1:00:ab,hostnqn=c:",
            "DHHC-1:00:ab\ncd:",
            &long,
        ] {
            for given in [keys(Some(key), None), keys(Some(KEY), Some(key))] {
                let error = options("10.1.2.3:4420", given).unwrap_err();
                assert_eq!(error, InvalidConnect::Key, "{key:?}");
                assert!(key.is_empty() || !error.to_string().contains(key));
            }
        }
        let alone = options("10.1.2.3:4420", keys(None, Some(KEY)));
        assert_eq!(alone, Err(InvalidConnect::ControllerKeyAlone));
    }
}
