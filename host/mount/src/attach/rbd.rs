//! Images of Ceph (RBD) by the kernel alone (krbd): what maps and unmaps them is a file of sysfs (`Documentation/ABI/testing/sysfs-bus-rbd`).
//!
//! The key never stands in what is written there, since root can read that again: the kernel gets it in a keyring of the thread that writes. The option
//! that names the key has the driver in it, so the kernel itself knows which maps are whose.
//!
//! Neither call has a bound in the kernel if the cluster does not answer, so each is made on a thread of its own. One that lasts keeps its image's turn, and
//! a later call finds what it did. Nothing is ever unmapped by force: what was written to the device and did not reach the cluster would be lost.

mod request;

use super::{Owner, flush_unused, refuse_shown, turn};
use crate::block::DeviceNumber;
use crate::block::rbd::MappedImage;
use crate::exclusive::Claim;
use crate::failure::{io, kernel};
use crate::plan::attach::RbdImage;
use crate::sysfs::SYS;
use crate::threads::within;
use request::{Credentials, Request, key_name};
use rustix::io::Errno;
use std::fmt::Display;
use std::fs;
use std::path::Path;
use std::time::Duration;
use wasmount_core::mounter::MountError;
use wasmount_core::secrets::SecretOptions;
use wasmount_sys::keyring::add_key_of_thread;

/// The files that map and unmap.
const ADD: &str = "bus/rbd/add_single_major";
const REMOVE: &str = "bus/rbd/remove_single_major";
/// The type of a key of Ceph, for the kernel.
const KEY_TYPE: &std::ffi::CStr = c"ceph";
/// How long a call waits for an image to be mapped. A call's default budget is 60 s, and the monitors have 30 s of it to answer.
const MAP_TIME: Duration = Duration::from_secs(40);
/// How long it waits for one to be unmapped, or read again. A cluster that answers takes well below 1 s.
const UNMAP_TIME: Duration = Duration::from_secs(20);

/// Maps the image, unless it is mapped already, in the same way.
pub(super) fn attach(
    owner: &Owner<'_>,
    image: &RbdImage,
    secrets: &SecretOptions,
) -> Result<(), MountError> {
    let credentials = Credentials::parse(image, secrets)?;
    let key_name = key_name(owner.driver);
    let request = Request::of(image, &credentials.user, &key_name);
    let turn = alone(image.cluster, image)?;
    let image = image.clone();
    bounded(&image.to_string(), MAP_TIME, turn, move || {
        for mapped in maps(&image) {
            ensure_own(&image, &mapped, &key_name)?;
            if is_meant(&mapped, &image) && mapped.told == request.text {
                return Ok(());
            }
            tracing::info!(%image, device = mapped.number_on_bus, "an image that was mapped otherwise is unmapped");
            unmap(&mapped)?;
        }
        map(&image, &request, &credentials)
    })
}

/// Unmaps what the driver has mapped of the image.
pub(super) fn detach(owner: &Owner<'_>, image: &RbdImage) -> Result<(), MountError> {
    let own = own(owner, image);
    if own.is_empty() {
        return Ok(());
    }
    let turn = alone(image.cluster, image)?;
    bounded(&image.to_string(), UNMAP_TIME, turn, move || {
        own.iter().try_for_each(unmap)
    })
}

/// Has the kernel read the size of the image again.
pub(super) fn rescan(owner: &Owner<'_>, image: &RbdImage) -> Result<(), MountError> {
    let own = own(owner, image);
    let turn = alone(image.cluster, image)?;
    bounded(&image.to_string(), UNMAP_TIME, turn, move || {
        own.iter().try_for_each(|mapped| {
            let refresh = mapped.folder(Path::new(SYS)).join("refresh");
            fs::write(&refresh, "1").map_err(|error| io("write", refresh.display(), &error))
        })
    })
}

/// Whether a driver's mounter has mapped a device.
pub(super) fn has_attached(owner: &Owner<'_>, number: DeviceNumber) -> bool {
    let mapped = MappedImage::with_number(Path::new(SYS), number);
    mapped.is_some_and(|it| it.has_key_named(&key_name(owner.driver)))
}

/// Unmaps images that the driver has mapped and that no record names, unless they are in use.
pub(super) fn end_unrecorded(owner: &Owner<'_>, is_recorded: impl Fn(&MappedImage) -> bool) {
    let key_name = key_name(owner.driver);
    let mapped = MappedImage::all(Path::new(SYS)).into_iter();
    for mapped in mapped.filter(|it| it.has_key_named(&key_name)) {
        let MappedImage { pool, name, .. } = &mapped;
        match end(&mapped, &is_recorded) {
            Ok(false) => {}
            Ok(true) => tracing::info!(pool, name, "an image without a record is unmapped"),
            Err(error) => {
                tracing::warn!(pool, name, %error, "an image without a record stays mapped; it is used when its volume is staged, and otherwise unmapped at a later start");
            }
        }
    }
}

/// Whether a mapped image is the one of an attachment, by its identity or by its name.
pub(super) fn is_of(mapped: &MappedImage, image: &RbdImage) -> bool {
    let namespace = image.namespace.as_ref().map_or("", |it| it.as_str());
    let is_there = mapped.cluster == image.cluster.to_string()
        && mapped.pool == image.pool.as_str()
        && mapped.namespace == namespace;
    is_there && (mapped.id == image.id.as_str() || mapped.name == image.name.as_str())
}

fn end(
    mapped: &MappedImage,
    is_recorded: impl Fn(&MappedImage) -> bool,
) -> Result<bool, MountError> {
    let turn = alone(&mapped.cluster, mapped)?;
    // The caller of a stage writes its record before it waits for its turn.
    if is_recorded(mapped) {
        return Ok(false);
    }
    refuse_shown(mapped.number)?;
    let image = mapped.clone();
    bounded(&image.to_string(), UNMAP_TIME, turn, move || unmap(&image))?;
    Ok(true)
}

/// All maps of the image, whoever made them.
fn maps(image: &RbdImage) -> Vec<MappedImage> {
    let mut all = MappedImage::all(Path::new(SYS));
    all.retain(|mapped| is_of(mapped, image));
    all
}

fn own(owner: &Owner<'_>, image: &RbdImage) -> Vec<MappedImage> {
    let key_name = key_name(owner.driver);
    let mut own = maps(image);
    own.retain(|mapped| mapped.has_key_named(&key_name));
    own
}

fn is_meant(mapped: &MappedImage, image: &RbdImage) -> bool {
    mapped.wwid() == Some(image.wwid())
}

fn ensure_own(image: &RbdImage, mapped: &MappedImage, key_name: &str) -> Result<(), MountError> {
    match mapped.has_key_named(key_name) {
        true => Ok(()),
        false => {
            let number = mapped.number_on_bus;
            let by = format!(
                "another driver or program has mapped it as /dev/rbd{number}; unmap it there (`rbd unmap /dev/rbd{number}`)"
            );
            Err(MountError::in_use(image, by))
        }
    }
}

/// Maps, and compares the identity. One that is another image is unmapped again.
fn map(image: &RbdImage, request: &Request, credentials: &Credentials) -> Result<(), MountError> {
    let add = Path::new(SYS).join(ADD);
    if !add.exists() {
        let reason = "the kernel's module is missing; load it (`modprobe rbd`)";
        return Err(MountError::unusable(image, reason));
    }
    add_key_of_thread(KEY_TYPE, &request.key_name, &credentials.key)
        .map_err(|errno| kernel("add_key", image, errno))?;
    fs::write(&add, &request.text).map_err(|error| {
        let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
        request::refused(image, errno)
    })?;
    let mapped = maps(image).into_iter().find(|it| it.told == request.text);
    match mapped {
        Some(mapped) if is_meant(&mapped, image) => Ok(()),
        Some(mapped) => {
            unmap(&mapped)?;
            let reason = format!(
                "it has the id {}, and the volume is the image with the id {}; nothing was read or written; look which image has the name",
                mapped.id, image.id
            );
            Err(MountError::unusable(image, reason))
        }
        None => Err(MountError::hung(
            image,
            "it vanished right after it was mapped, or the cluster is another one; look at the kernel's log",
        )),
    }
}

/// Unmaps an image that nobody uses. What was written to it is written out before.
fn unmap(mapped: &MappedImage) -> Result<(), MountError> {
    flush_unused(mapped.number, mapped)?;
    match fs::write(
        Path::new(SYS).join(REMOVE),
        mapped.number_on_bus.to_string(),
    ) {
        Ok(()) => Ok(()),
        Err(error) => match Errno::from_io_error(&error) {
            Some(Errno::NOENT) => Ok(()),
            Some(Errno::BUSY) => Err(MountError::in_use(mapped, "a program has it open")),
            Some(Errno::INPROGRESS) => Err(MountError::under_way(format!(
                "the removal of the map of {mapped}"
            ))),
            _ => Err(io("unmap", mapped, &error)),
        },
    }
}

/// Does work of the kernel on an image, and waits for it for so long. It keeps the image's turn to its end.
fn bounded(
    what: &str,
    wait: Duration,
    turn: Claim<'static, String>,
    work: impl FnOnce() -> Result<(), MountError> + Send + 'static,
) -> Result<(), MountError> {
    let done = within(wait, "rbd", move || {
        let done = work();
        drop(turn);
        done
    });
    match done.map_err(|error| io("start a thread for", what, &error))? {
        Some(done) => done,
        None => Err(MountError::hung(
            what,
            format!(
                "the kernel still waits for the cluster after {} s; look at the monitors and OSDs, and at the kernel's log",
                wait.as_secs()
            ),
        )),
    }
}

/// One call at a time maps or unmaps an image.
fn alone(cluster: impl Display, image: impl Display) -> Result<Claim<'static, String>, MountError> {
    turn(format!("{cluster} {image}"), &image.to_string())
}
