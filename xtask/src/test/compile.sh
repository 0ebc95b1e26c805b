#!/usr/bin/env bash
# The compiler of a workspace's members, as cargo calls it (RUSTC_WORKSPACE_WRAPPER): clippy, and then rustdoc on the same input. rustdoc only
# checks. `cargo doc` would need all dependencies a second time, as metadata without code. A plain sh would drop variables such as
# `CARGO_BIN_EXE_block-array`.
set -eu
shift # The name of the compiler.
# Programs at a fixed address start without the 400,000 relocations of a debug build, which touch 1,600 pages: the VMs' kernel takes long for each.
case " $* " in
  *" --crate-type bin "* | *" --test "*) set -- "$@" -C link-arg=-no-pie ;;
esac
clippy-driver rustc "$@"
documented=false
for argument do
  shift
  case $argument in
    # Cargo asks about the compiler, or compiles tests or a build script.
    --print=* | --test | build_script_*) exit ;;
    # The kinds of crates, which follow `--crate-type`.
    lib | bin | proc-macro) documented=true ;;
  esac
  case $argument in
    # rustdoc has no such outputs.
    --emit=* | --json=*artifacts*) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
$documented || exit 0
# `--check` is for unstable compilers alone, which the variable makes of a stable one.
RUSTC_BOOTSTRAP=1 exec rustdoc -Z unstable-options --check -D warnings "$@"
