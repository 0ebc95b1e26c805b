//! Clients, pods and pools that mean harm: whatever they name, swap or plant, nothing is mounted outside of the path root, and nothing that
//! lies elsewhere is changed.

mod decoy;
mod races;
mod strings;
