//! CSINode and Node against a real API server without a kubelet: what is compared, reported and repaired beside one (a test plays it), and what the
//! host writes without one. One file a subject.

mod cluster;
mod kubelet;
mod manage;
mod node_facts;
mod node_register;
mod serve;
mod verify;
mod watched;
