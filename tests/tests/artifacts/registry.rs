//! The commands that move components, and the confined child that fetches for a host, against a real registry (Debian's `docker-registry`) with
//! TLS and passwords, beside another client of it (skopeo), and against servers that are none. One file a subject.

mod bundles;
mod certificates;
mod child;
mod commands;
mod fetcher;
mod hostile_bundles;
mod inspect;
mod manifests;
mod others;
mod progress;
mod rogues;
mod served;
mod server;
