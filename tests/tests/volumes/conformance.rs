//! What csi-sanity never looks at, over the real socket with plugins/hostpath: what is inside of snapshots, mount flags, read-only volumes,
//! formatting, calls that meet, restarts, groups, copies of copies, copies of what is being written, long lists, limits, places, volumes of
//! one pod, and changes by class. Attachments, lists and calls that meet also with plugins/array, over HTTP. One file a subject.

mod attach;
mod copies;
pub(crate) mod driver;
mod ephemeral;
mod flags;
mod format;
mod groups;
mod in_flight;
mod listing;
mod metadata;
mod modify;
mod moment;
mod read_only;
mod recovery;
mod topology;
