//! The platforms of a release: the names that a processor has in OCI, Rust and Debian, and the programs that build for it on another one.

use crate::failure::Failure;
use crate::packages::Need;
use clap::ValueEnum;
use std::env::consts::ARCH;

/// A processor that Linux runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Architecture {
    /// x86-64
    Amd64,
    /// 64-bit Arm
    Arm64,
}

impl Architecture {
    /// All.
    pub const ALL: [Self; 2] = [Self::Amd64, Self::Arm64];

    /// That of this machine.
    pub fn of_this_machine() -> Result<Self, Failure> {
        let own = Self::ALL.into_iter().find(|it| it.in_rust() == ARCH);
        own.ok_or_else(|| Failure::Unexpected(format!("a release cannot be built on {ARCH}")))
    }

    /// The name in Go, which OCI and Debian use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }

    fn in_rust(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64",
            Self::Arm64 => "aarch64",
        }
    }

    /// The compiler's target.
    pub fn target(self) -> String {
        format!("{}-unknown-linux-gnu", self.in_rust())
    }

    /// The prefix of Debian's cross-compiler, and the directory of its libraries.
    pub fn prefix(self) -> String {
        format!("{}-linux-gnu", self.in_rust())
    }

    /// The program that takes debug information out of its programs, which is a part of the cross-compiler.
    pub fn strip(self) -> String {
        match self.in_rust() == ARCH {
            true => "strip".to_owned(),
            false => format!("{}-strip", self.prefix()),
        }
    }

    /// The emulator of its programs.
    pub fn emulator(self) -> String {
        format!("qemu-{}", self.in_rust())
    }

    /// The programs by which another machine builds for it, and starts what it has built.
    pub fn needs(self) -> &'static [Need] {
        match self {
            Self::Amd64 => &[
                ("x86_64-linux-gnu-gcc", "gcc-x86-64-linux-gnu"),
                (
                    "/usr/x86_64-linux-gnu/lib/libc.so.6",
                    "libc6-dev-amd64-cross",
                ),
                ("qemu-x86_64", "qemu-user"),
            ],
            Self::Arm64 => &[
                ("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu"),
                (
                    "/usr/aarch64-linux-gnu/lib/libc.so.6",
                    "libc6-dev-arm64-cross",
                ),
                ("qemu-aarch64", "qemu-user"),
            ],
        }
    }
}
