//! `wasmount sign` and `verify` as a vendor and an administrator use them: on files and in a real registry, beside what cosign's own code
//! makes and accepts. One file a subject.

mod files;
mod keys;
mod registry;
mod scene;
