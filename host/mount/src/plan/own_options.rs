//! The options of each file system's own: which are harmless, by name and by the shape of the value, and which the host sets itself.
//!
//! It is apart because it is a table to be read and argued about, one line a kind of value. Every name that is not here needs a grant. It must
//! not know who asks, nor the flags that all file systems share.
//!
//! Left out on purpose, so that the administrator has to grant it by name:
//!  * what leads to other storage than the source: `lowerdir`, `upperdir`, `workdir` (overlay), `aname` (9p), `fs` (ceph), `snapshot` (cifs);
//!  * what hands the kernel a descriptor or a user: `fd`, `rootmode`, `user_id`, `group_id` (fuse), `trans=fd` (9p);
//!  * what changes the labels of everything below: `context` and its like (a request's label is the business of `label`);
//!  * what takes checks away: `noperm`, `multiuser`, `cruid` (cifs), `vers=1.0` (cifs), `user_subvol_rm_allowed` (btrfs);
//!  * what loses data at a crash: `nobarrier`, `volatile`, `journal_async_commit`, `norecovery`, `degraded`.
//!
//! What cannot be granted either: `errors=panic` and its like, which `options` refuses, since damaged storage would take the node down.

/// Most digits of a number: those of 2^32.
const DIGITS: usize = 10;
/// Longest word, in bytes: a label of a domain name has 63.
const WORD_BYTES: usize = 64;
/// Permission bits without the set-user and set-group bits.
const MODE_BITS: u32 = 0o1777;

/// What a value looks like.
enum Shape {
    /// There is none.
    Flag,
    /// Decimal.
    Number,
    /// Decimal, with or without a unit.
    Size,
    /// Octal with its leading 0: without it the kernel reads decimal.
    Mode,
    /// Letters, digits and what a host or user name has.
    Word,
    OneOf(&'static str),
    /// One or more of them with colons between.
    ListOf(&'static str),
    /// One of them, with or without `:` and a level.
    LevelOf(&'static str),
}

/// Options that are harmless with a value of this shape; names, as words, have spaces between.
type Row = (Shape, &'static str);

/// What the kernel takes for every file system (`fs/fs_context.c`, `common_set_sb_flag`) and that is no flag of a mount.
const COMMON: &[Row] = &[(Shape::Flag, "sync async dirsync lazytime nolazytime")];

/// ext4(5).
const EXT4: &[Row] = &[
    (
        Shape::Flag,
        "acl auto_da_alloc noauto_da_alloc block_validity bsddf minixdf bsdgroups grpid \
         nogrpid sysvgroups delalloc nodelalloc dioread_lock dioread_nolock nodioread_nolock \
         discard nodiscard grpquota prjquota quota noquota usrquota i_version init_itable \
         noinit_itable journal_checksum user_xattr",
    ),
    (
        Shape::Number,
        "auto_da_alloc commit init_itable inode_readahead_blks max_batch_time min_batch_time \
         max_dir_size_kb stripe",
    ),
    (Shape::OneOf("ordered writeback journal"), "data"),
    (Shape::OneOf("remount-ro continue"), "errors"),
    (Shape::OneOf("0 1 2 3 4 5 6 7"), "journal_ioprio"),
];

/// xfs(5).
const XFS: &[Row] = &[
    (
        Shape::Flag,
        "attr2 bsdgroups grpid nogrpid sysvgroups discard nodiscard filestreams ikeep noikeep \
         inode32 inode64 largeio nolargeio noalign nouuid swalloc wsync noquota quota uquota \
         usrquota uqnoenforce gquota grpquota gqnoenforce pquota prjquota pqnoenforce",
    ),
    (Shape::Size, "allocsize logbsize"),
    (Shape::Number, "logbufs sunit swidth"),
];

/// btrfs(5).
const BTRFS: &[Row] = &[
    (
        Shape::Flag,
        "acl autodefrag noautodefrag compress compress-force datacow nodatacow datasum \
         nodatasum discard nodiscard enospc_debug flushoncommit noflushoncommit skip_balance \
         space_cache ssd ssd_spread nossd nossd_spread treelog",
    ),
    (Shape::Number, "commit metadata_ratio thread_pool"),
    (Shape::Size, "max_inline"),
    (
        Shape::LevelOf("zlib lzo zstd no none"),
        "compress compress-force",
    ),
    (Shape::OneOf("sync async"), "discard"),
    (Shape::OneOf("v1 v2"), "space_cache"),
];

/// nfs(5), and `nfs_fs_parameters` of `fs/nfs/fs_context.c`. Versions below 4 are not there: they need a statd.
const NFS: &[Row] = &[
    (
        Shape::Flag,
        "ac noac acl noacl cto nocto fg fsc nofsc hard soft softerr softreval intr nointr \
         lock nolock migration nomigration rdirplus nordirplus resvport noresvport sharecache \
         nosharecache tcp trunkdiscovery notrunkdiscovery",
    ),
    (
        Shape::Number,
        "acdirmax acdirmin acregmax acregmin actimeo bsize max_connect namlen nconnect port \
         retrans retry rsize timeo wsize",
    ),
    (Shape::OneOf("4 4.0 4.1 4.2"), "vers nfsvers"),
    (Shape::OneOf("0 1 2"), "minorversion"),
    (Shape::OneOf("tcp tcp6 rdma rdma6"), "proto"),
    (Shape::OneOf("all flock posix none"), "local_lock"),
    (Shape::OneOf("all none pos positive"), "lookupcache"),
    (Shape::ListOf("sys krb5 krb5i krb5p none"), "sec"),
    (Shape::OneOf("none force"), "rdirplus"),
    (Shape::OneOf("none tls mtls"), "xprtsec"),
    (Shape::OneOf("lazy eager wait"), "write"),
];

/// mount.cifs(8), and `smb3_fs_parameters` of `fs/smb/client/fs_context.c`.
const SMB: &[Row] = &[
    (
        Shape::Flag,
        "acl brl nobrl forceuid noforceuid forcegid noforcegid fsc handlecache nohandlecache \
         hard nohard soft nosoft intr nointr mapchars nomapchars mapposix nomapposix \
         mfsymlinks multichannel nomultichannel noac noautotune nocase ignorecase nodelete \
         nodfs nolease nosharesock nosparse perm persistenthandles nopersistenthandles posix \
         noposix posixpaths noposixpaths resilienthandles noresilienthandles seal serverino \
         noserverino sign strictsync nostrictsync tcpnodelay unix nounix linux nolinux \
         user_xattr nouser_xattr witness",
    ),
    (
        Shape::Number,
        "acdirmax acregmax actimeo bsize closetimeo echo_interval esize gid handletimeout \
         max_cached_dirs max_channels max_credits port rasize retrans rsize uid wsize",
    ),
    (Shape::Mode, "file_mode dir_mode dirmode"),
    (Shape::Word, "dom domain iocharset user username"),
    (
        Shape::OneOf("2.0 2.1 3 3.0 3.02 3.0.2 3.11 3.1.1 default"),
        "vers",
    ),
    (
        Shape::OneOf("krb5 krb5i ntlmssp ntlmsspi ntlmv2 ntlmv2i"),
        "sec",
    ),
    (Shape::OneOf("strict none loose"), "cache"),
];

/// mount.ceph(8).
const CEPH: &[Row] = &[
    (
        Shape::Flag,
        "acl noacl asyncreaddir noasyncreaddir copyfrom nocopyfrom crc dcache nodcache \
         dirstat nodirstat fsc nofsc quotadf noquotadf rbytes norbytes share noshare \
         tcp_nodelay notcp_nodelay wsync nowsync",
    ),
    (
        Shape::Number,
        "caps_max caps_wanted_delay_max caps_wanted_delay_min mount_timeout osd_idle_ttl \
         osd_request_timeout osdkeepalive rasize readdir_max_bytes readdir_max_entries rsize \
         write_congestion_kb wsize",
    ),
    (Shape::Word, "name"),
    (
        Shape::OneOf("legacy crc secure prefer-crc prefer-secure"),
        "ms_mode",
    ),
    (Shape::OneOf("no balance localize"), "read_from_replica"),
    (Shape::OneOf("no clean"), "recover_session"),
];

/// `Documentation/filesystems/9p.rst` of the kernel.
const NINE_P: &[Row] = &[
    (Shape::Flag, "nodevmap noxattr posixacl"),
    (Shape::Number, "dfltgid dfltuid locktimeout msize port"),
    (Shape::Word, "uname"),
    (Shape::OneOf("virtio tcp rdma xen"), "trans"),
    (Shape::OneOf("9p2000 9p2000.u 9p2000.L"), "version"),
    (Shape::OneOf("user any client"), "access"),
    (Shape::OneOf("none loose fscache mmap readahead"), "cache"),
];

/// `Documentation/filesystems/overlayfs.rst` of the kernel.
const OVERLAY: &[Row] = &[
    (Shape::Flag, "userxattr"),
    (Shape::OneOf("on off"), "index"),
    (Shape::OneOf("on off auto"), "xino"),
];

/// Whether an option of a file system's own is harmless. A flag has an empty value.
pub(crate) fn is_harmless(fs_type: &str, name: &str, value: &str) -> bool {
    harmless(fs_type)(name, value)
}

/// The same for one type, as [`super::options::Allowed`] takes it.
pub(crate) fn harmless(fs_type: &str) -> fn(&str, &str) -> bool {
    match fs_type {
        "ext4" => |name, value| is_in(EXT4, name, value),
        "xfs" => |name, value| is_in(XFS, name, value),
        "btrfs" => |name, value| is_in(BTRFS, name, value),
        "nfs" | "nfs4" => |name, value| is_in(NFS, name, value),
        "cifs" | "smb3" => |name, value| is_in(SMB, name, value),
        "ceph" => |name, value| is_in(CEPH, name, value),
        "9p" => |name, value| is_in(NINE_P, name, value),
        "overlay" => |name, value| is_in(OVERLAY, name, value),
        _ => |name, value| is_in(&[], name, value),
    }
}

/// Options that the host sets itself, or that name paths, devices and servers past what was granted: they cannot be granted by name.
pub(crate) fn reserved(fs_type: &str) -> &'static [&'static str] {
    match fs_type {
        "ext4" => &["source", "journal_path", "journal_dev", "sb"],
        "xfs" => &["source", "logdev", "rtdev"],
        "btrfs" => &["source", "device", "subvol", "subvolid"],
        "nfs" | "nfs4" => &[
            "source",
            "addr",
            "clientaddr",
            "mountaddr",
            "mounthost",
            "mountport",
            "mountproto",
            "mountvers",
            "v2",
            "v3",
            "v4",
            "v4.0",
            "v4.1",
            "v4.2",
        ],
        "cifs" | "smb3" => &[
            "source",
            "addr",
            "ip",
            "unc",
            "target",
            "path",
            "prefixpath",
            "cred",
            "credentials",
            "rootfs",
        ],
        "9p" => &["source", "rfdno", "wfdno"],
        _ => &["source"],
    }
}

fn is_in(rows: &[Row], name: &str, value: &str) -> bool {
    rows.iter()
        .chain(COMMON)
        .any(|(shape, names)| has(names, name) && shape.fits(value))
}

impl Shape {
    fn fits(&self, value: &str) -> bool {
        match self {
            Shape::Flag => value.is_empty(),
            Shape::Number => is_number(value),
            Shape::Size => is_number(
                value
                    .strip_suffix(['k', 'K', 'm', 'M', 'g', 'G'])
                    .unwrap_or(value),
            ),
            Shape::Mode => {
                value.starts_with('0')
                    && u32::from_str_radix(value, 8).is_ok_and(|mode| mode <= MODE_BITS)
            }
            Shape::Word => {
                let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
                !value.is_empty() && value.len() <= WORD_BYTES && value.chars().all(allowed)
            }
            Shape::OneOf(words) => has(words, value),
            Shape::ListOf(words) => value.split(':').all(|word| has(words, word)),
            Shape::LevelOf(words) => match value.split_once(':') {
                Some((word, level)) => has(words, word) && is_number(level),
                None => has(words, value),
            },
        }
    }
}

fn has(words: &str, word: &str) -> bool {
    words.split_ascii_whitespace().any(|there| there == word)
}

fn is_number(value: &str) -> bool {
    !value.is_empty() && value.len() <= DIGITS && value.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests;
