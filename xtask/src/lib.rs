//! The project's commands as a library: the implementation of `cargo xtask`, and the parts that whole-system tests share with it (a place to serve
//! in, the driver as a process, its clients, the pinned tools).
//!
//! It knows the host only from outside: its command line, its socket and the kernel's mount table.

#![forbid(unsafe_code)]

pub mod array;
mod bootstrap;
pub mod cargo_tool;
pub mod clients;
pub mod cluster;
pub mod command;
pub mod demo;
pub mod deny;
pub mod deploy;
pub mod failure;
pub mod files;
pub mod helm;
pub mod image;
pub mod interrupt;
pub mod loop_devices;
pub mod mountinfo;
pub mod packages;
pub mod place;
pub mod platform;
pub mod plugins;
pub mod process;
pub mod python;
pub mod release;
pub mod requests;
pub mod say;
pub mod served;
pub mod test;
pub mod toolchain;
pub mod tools;
pub mod vm;
pub mod workspace;
