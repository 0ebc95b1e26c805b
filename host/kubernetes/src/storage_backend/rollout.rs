//! The rollout of a changed object in steps (`spec.rollout`): one elected host decides, all hosts follow what it wrote into `status.rollout`.
//!
//! ```text
//! object, reports, clock ──▶ decision (elected host) ──▶ status.rollout ──▶ effective (each host) ──▶ what it serves, its report
//! ```

pub(super) mod admin;
pub(super) mod command;
pub(super) mod decision;
pub(super) mod effective;
pub(super) mod state;
