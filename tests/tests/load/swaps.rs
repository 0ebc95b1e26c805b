//! The code behind a live driver is replaced, a thousand times, by two administrators at once, by a kill amid it, by a version that turns out bad:
//! what kubelet and the sidecars see is that nothing was. Of what an administrator types and reads the tests are in `admin`.

pub(crate) mod footprint;
mod kill;
mod lives;
mod migration;
mod owners;
mod rollback;
mod scene;
mod share;
mod storm;
