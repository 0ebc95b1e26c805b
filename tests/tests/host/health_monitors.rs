//! The clients that watch a driver's health and are no Go modules, by their own sequences of calls: livenessprobe, node-driver-registrar and
//! external-health-monitor, and kubelet's part of it. What they would say of real faults, and that it is over.

mod conditions;
mod liveness;
mod monitor;
mod registrar;
