//! Admission policies, for what RBAC cannot say: which objects of a kind an account may write, and which objects nobody would ever act on.
//!
//! One file a policy below.

mod labelled_contents;
mod own_node;
mod own_objects;

use super::rbac::Part;
use super::{Manifest, ManifestsError, Parts};
use k8s_openapi::api::admissionregistration::v1::{
    MatchCondition, MatchResources, NamedRuleWithOperations, ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding, ValidatingAdmissionPolicyBindingSpec,
    ValidatingAdmissionPolicySpec, Validation, Variable,
};

/// Every write.
const ALL: [&str; 3] = ["CREATE", "UPDATE", "DELETE"];

/// A policy in its own words.
struct Policy {
    /// In the name of its objects.
    part: &'static str,
    about: &'static str,
    /// Which writes are looked at at all.
    writes: Vec<NamedRuleWithOperations>,
    /// And of those which.
    condition: MatchCondition,
    variables: Vec<Variable>,
    validations: Vec<Validation>,
}

impl Parts<'_> {
    pub(super) fn policies(&self) -> Result<Vec<Manifest>, ManifestsError> {
        let all = [
            Some(self.own_node()),
            self.own_objects(),
            self.labelled_contents(),
        ];
        let mut manifests = Vec::new();
        for policy in all.into_iter().flatten() {
            manifests.extend(self.bound(policy)?);
        }
        Ok(manifests)
    }

    /// The policy, and the binding by which it holds.
    fn bound(&self, policy: Policy) -> Result<[Manifest; 2], ManifestsError> {
        let name = self.named(policy.part);
        let object = ValidatingAdmissionPolicy {
            metadata: self.cluster_meta(name.clone()),
            spec: Some(ValidatingAdmissionPolicySpec {
                failure_policy: Some("Fail".to_owned()),
                match_constraints: Some(MatchResources {
                    resource_rules: Some(policy.writes),
                    ..MatchResources::default()
                }),
                match_conditions: Some(vec![policy.condition]),
                variables: (!policy.variables.is_empty()).then_some(policy.variables),
                validations: Some(policy.validations),
                ..ValidatingAdmissionPolicySpec::default()
            }),
            ..ValidatingAdmissionPolicy::default()
        };
        let binding = ValidatingAdmissionPolicyBinding {
            metadata: self.cluster_meta(name.clone()),
            spec: ValidatingAdmissionPolicyBindingSpec {
                policy_name: name,
                validation_actions: vec!["Deny".to_owned()],
                ..ValidatingAdmissionPolicyBindingSpec::default()
            },
        };
        Ok([
            Manifest::new(policy.about, &object)?,
            Manifest::new("", &binding)?,
        ])
    }

    /// Requests of the accounts of these parts.
    fn by_accounts(&self, parts: &[Part]) -> MatchCondition {
        let account = |part: &Part| {
            format!(
                "'system:serviceaccount:{}:{}'",
                self.choices.namespace,
                self.named(part.name())
            )
        };
        let accounts: Vec<_> = parts.iter().map(account).collect();
        MatchCondition {
            name: "the-driver".to_owned(),
            expression: format!("request.userInfo.username in [{}]", accounts.join(", ")),
        }
    }
}

fn rule(expression: impl Into<String>, message: impl Into<String>) -> Validation {
    Validation {
        expression: expression.into(),
        message: Some(message.into()),
        reason: Some("Forbidden".to_owned()),
        ..Validation::default()
    }
}

fn writes(group: &str, resources: &[&str], operations: &[&str]) -> NamedRuleWithOperations {
    let owned = |words: &[&str]| Some(words.iter().map(|word| (*word).to_owned()).collect());
    NamedRuleWithOperations {
        api_groups: owned(&[group]),
        api_versions: owned(&["*"]),
        operations: owned(operations),
        resources: owned(resources),
        ..NamedRuleWithOperations::default()
    }
}
