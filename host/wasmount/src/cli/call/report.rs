//! The report of one call, for people and for programs.

use super::plan::{plan_json, verdict_json, verdict_lines};
use super::state_file::to_json;
use crate::cli::show::{
    Table, Tone, bytes, harmless, microseconds, milliseconds, without_nothing, yaml_lines,
};
use crate::fault::Fault;
use crate::host::{Called, Change, Recorded};
use crate::telemetry::LogRecord;
use crate::visible;
use serde_json::{Value, json};
use wasmount_core::rpc::Rpc;
use wasmount_engine::Usage;

/// One completed call.
pub(super) struct Report {
    pub(super) rpc: Rpc,
    pub(super) called: Called,
    pub(super) changes: Vec<Change>,
    pub(super) log: Vec<LogRecord>,
}

impl Report {
    /// Whether the client received OK.
    pub(super) fn is_ok(&self) -> bool {
        self.called.answer.code == 0
    }

    /// The report for programs: docs/inspect.md has the keys.
    pub(super) fn json(&self) -> Value {
        let answer = &self.called.answer;
        let recorded = self.called.recorded.iter().map(recorded_json);
        let changes = self.changes.iter().map(|change| {
            json!({
                "key": change.key,
                "before": change.before.as_deref().map(to_json),
                "after": change.after.as_deref().map(to_json),
            })
        });
        let log = self
            .log
            .iter()
            .map(|record| json!({ "level": record.level.as_str(), "text": record.text }));
        let mut report = json!({
            "rpc": self.rpc.name(),
            "code": answer.code,
            "codeName": answer.code_name,
            "message": answer.message,
            "responses": answer.responses,
            "plans": recorded.collect::<Vec<_>>(),
            "state": changes.collect::<Vec<_>>(),
            "log": log.collect::<Vec<_>>(),
            "microseconds": microseconds(self.called.wall),
            "guestCalls": self.called.usages.iter().map(usage_json).collect::<Vec<_>>(),
        });
        if let (Some(lines), Value::Object(keys)) = (self.http(), &mut report) {
            let lines =
                lines.map(|(request, outcome)| json!({ "request": request, "outcome": outcome }));
            keys.insert("http".to_owned(), lines.collect());
        }
        report
    }

    /// The requests of the plugin and their outcomes, if they were recorded or replayed.
    fn http(&self) -> Option<impl Iterator<Item = (String, String)>> {
        let (conversation, _) = self.called.conversation.as_ref().ok()?.as_ref()?;
        Some(conversation.lines())
    }

    /// The report for people.
    pub(super) fn text(&self) -> Result<String, Fault> {
        let answer = &self.called.answer;
        let tone = if self.is_ok() { Tone::Good } else { Tone::Bad };
        let mut table = Table::default();
        table.row("call", self.rpc.name());
        table.row("code", tone.paint(answer.code_name));
        if !answer.message.is_empty() {
            table.row("message", visible::lines(&answer.message));
        }
        for response in &answer.responses {
            table.rows("answer", yaml_lines(response)?);
        }
        let plans = self.called.recorded.iter().map(recorded_lines);
        let plans: Result<Vec<_>, Fault> = plans.collect();
        table.rows("plan", plans?.concat());
        table.rows(
            "records",
            self.changes.iter().flat_map(change_lines).collect(),
        );
        let log = self.log.iter().map(|record| {
            let level = Tone::Quiet.paint(&format!("{:5}", record.level.as_str()));
            format!("{level} {}", harmless(&record.text))
        });
        table.rows("log", log.collect());
        let http = self.http().into_iter().flatten();
        let http = http.map(|(request, outcome)| harmless(&format!("{request}: {outcome}")));
        table.rows("http", http.collect());
        table.row("time", milliseconds(self.called.wall));
        let usages = self.called.usages.iter().map(usage_line);
        table.rows("plugin", usages.collect());
        Ok(table.print())
    }
}

fn recorded_json(recorded: &Recorded) -> Value {
    let Recorded { action, path, plan } = recorded;
    match plan {
        None => json!({ "action": action, "path": path, "plan": null }),
        Some(judged) => json!({
            "action": action,
            "path": path,
            "plan": plan_json(&judged.plan),
            "verdict": verdict_json(&judged.verdict),
        }),
    }
}

fn recorded_lines(recorded: &Recorded) -> Result<Vec<String>, Fault> {
    let Recorded { action, path, plan } = recorded;
    let mut lines = vec![format!("{action} {}", harmless(path))];
    match plan {
        None => lines.push(Tone::Quiet.paint("  the host needs no plan for this")),
        Some(judged) => {
            let plan = without_nothing(plan_json(&judged.plan));
            let mut shown = yaml_lines(&plan)?;
            shown.extend(verdict_lines(&judged.verdict)?);
            lines.extend(shown.into_iter().map(|line| format!("  {line}")));
        }
    }
    Ok(lines)
}

fn change_lines(change: &Change) -> Vec<String> {
    let Change { key, before, after } = change;
    let line = |sign: &str, tone: Tone, value: &[u8]| {
        let value = match to_json(value) {
            Value::String(text) => text,
            other => other.to_string(),
        };
        let sign = tone.paint(sign);
        format!("{sign} {} = {}", harmless(key), harmless(&value))
    };
    let before = before.as_ref().map(|value| line("-", Tone::Bad, value));
    let after = after.as_ref().map(|value| line("+", Tone::Good, value));
    before.into_iter().chain(after).collect()
}

fn usage_json(usage: &Usage) -> Value {
    json!({
        "interface": usage.interface,
        "function": usage.function,
        "microseconds": microseconds(usage.wall),
        "cpuMicroseconds": microseconds(usage.cpu),
        "memoryBytes": usage.memory_bytes,
        "hostCalls": usage.host_calls,
    })
}

fn usage_line(usage: &Usage) -> String {
    format!(
        "{}.{}: {}, of that CPU {}; memory {}; host calls {}",
        usage.interface,
        usage.function,
        milliseconds(usage.wall),
        milliseconds(usage.cpu),
        bytes(usage.memory_bytes),
        usage.host_calls,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_record_is_shown_as_it_was_and_as_it_is() {
        let change = Change {
            key: "a".to_owned(),
            before: Some(b"1\n2".to_vec()),
            after: Some(vec![0xff]),
        };
        let lines = change_lines(&change);
        let plain = lines
            .iter()
            .map(|line| anstream::adapter::strip_str(line).to_string());
        let plain: Vec<_> = plain.collect();
        assert_eq!(plain, ["- a = 1\\n2", "+ a = {\"hex\":\"ff\"}"]);
    }
}
