//! The contract's functions that the host calls: their share of the calls, and the changes that they may make.

use crate::gate::Share;

/// The changes that a call may make. They follow from its purpose: before a version serves it changes nothing, and later read calls change nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// May change records and pools.
    ReadWrite,
    /// May change nothing; records and pools can be read.
    ReadOnly,
    /// May change nothing; pools can be read, and records are passed with the call.
    Migration,
}

/// An export and the way it is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Function {
    /// The interface that it belongs to.
    pub(crate) interface: &'static str,
    /// Its name in the contract.
    pub(crate) name: &'static str,
    pub(crate) share: Share,
    /// Whether it may record a plan.
    pub(crate) records: bool,
    pub(crate) access: Access,
    /// Whether it is called only before its version serves: then it sends nothing to any system.
    pub(crate) is_before_serving: bool,
}

impl Function {
    /// A function that creates or reads objects.
    const fn ordinary(interface: &'static str, name: &'static str) -> Self {
        Self {
            interface,
            name,
            share: Share::Ordinary,
            records: false,
            access: Access::ReadWrite,
            is_before_serving: false,
        }
    }

    /// A function for teardown, or for which a node or a health check waits.
    const fn reserved(interface: &'static str, name: &'static str) -> Self {
        Self {
            share: Share::Reserved,
            ..Self::ordinary(interface, name)
        }
    }

    /// The function with another access.
    const fn with(self, access: Access) -> Self {
        Self { access, ..self }
    }
}

pub(crate) const GET_PLUGIN_INFO: Function = called_at_admission("get-plugin-info");
pub(crate) const PROBE: Function = called_at_admission("probe");
pub(crate) const CHECK_SETTINGS: Function = called_at_admission("check-settings");

pub(crate) const CREATE_VOLUME: Function = Function::ordinary("controller", "create-volume");
pub(crate) const DELETE_VOLUME: Function = Function::reserved("controller", "delete-volume");
pub(crate) const VALIDATE: Function = reading("controller", "validate-volume-capabilities");
pub(crate) const PUBLISH: Function =
    Function::ordinary("controller-publish", "controller-publish-volume");
pub(crate) const UNPUBLISH: Function =
    Function::reserved("controller-publish", "controller-unpublish-volume");
pub(crate) const EXPAND: Function = Function::ordinary("controller-expand", "expand-volume");
pub(crate) const MODIFY: Function = Function::ordinary("controller-modify", "modify-volume");
pub(crate) const LIST_VOLUMES: Function = reading("volume-listing", "list-volumes");
pub(crate) const GET_VOLUME: Function = reading("volume-lookup", "get-volume");
pub(crate) const GET_CAPACITY: Function = reading("capacity", "get-capacity");
pub(crate) const GET_HEALTH: Function = reading("volume-health", "get-volume-health");

pub(crate) const CREATE_SNAPSHOT: Function = Function::ordinary("snapshots", "create-snapshot");
pub(crate) const DELETE_SNAPSHOT: Function = Function::reserved("snapshots", "delete-snapshot");
/// It may write, as look-ups of groups and of metadata may: the guest may detect that a copy has ended, or restart a lost one
/// (`pool::Snapshots` of the SDK).
pub(crate) const GET_SNAPSHOT: Function = Function::ordinary("snapshots", "get-snapshot");
pub(crate) const LIST_SNAPSHOTS: Function = reading("snapshot-listing", "list-snapshots");
pub(crate) const CREATE_GROUP: Function =
    Function::ordinary("group-snapshots", "create-group-snapshot");
pub(crate) const DELETE_GROUP: Function =
    Function::reserved("group-snapshots", "delete-group-snapshot");
pub(crate) const GET_GROUP: Function = Function::ordinary("group-snapshots", "get-group-snapshot");
pub(crate) const GET_ALLOCATED: Function = Function::ordinary("snapshot-metadata", "get-allocated");
pub(crate) const GET_DELTA: Function = Function::ordinary("snapshot-metadata", "get-delta");

pub(crate) const GET_NODE_INFO: Function =
    Function::reserved("node-info", "get-node-info").with(Access::ReadOnly);
pub(crate) const NODE_STAGE: Function = planning("node-stage", "node-stage");
pub(crate) const NODE_PUBLISH: Function = planning("node-publish", "node-publish");
pub(crate) const BEFORE_UNSTAGE: Function = Function::reserved("node-hooks", "before-unstage");

pub(crate) const REGISTER_NODE: Function = Function::ordinary("node-register", "register-node");
pub(crate) const UNREGISTER_NODE: Function = Function::ordinary("node-register", "unregister-node");

pub(crate) const PLAN_MIGRATION: Function = migrating("plan-migration");
pub(crate) const MIGRATE: Function = migrating("migrate-records");

/// A candidate may be rejected, and another version may serve meanwhile, on this host or another.
const fn called_at_admission(name: &'static str) -> Function {
    before_serving(Function::reserved("identity", name).with(Access::ReadOnly))
}

const fn before_serving(function: Function) -> Function {
    Function {
        is_before_serving: true,
        ..function
    }
}

const fn reading(interface: &'static str, name: &'static str) -> Function {
    Function::ordinary(interface, name).with(Access::ReadOnly)
}

/// A function that records a plan.
const fn planning(interface: &'static str, name: &'static str) -> Function {
    Function {
        records: true,
        ..Function::reserved(interface, name)
    }
}

const fn migrating(name: &'static str) -> Function {
    before_serving(Function::reserved("state-migration", name).with(Access::Migration))
}
