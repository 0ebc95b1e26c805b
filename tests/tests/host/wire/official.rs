//! The Go program of tests/go/wire, which knows CSI from its official module.

use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage, ReflectMessage};
use prost_types::Any;
use serde_json::Value;
use std::io::{Seek, Write};
use std::path::PathBuf;
use std::process::Command;
use xtask::tools::Tool;
use xtask::workspace::Workspace;

/// What stands before the name of a message in an `Any`.
const TYPE_URL: &str = "type.googleapis.com/";

/// One version of the official module.
pub(crate) struct Official {
    program: PathBuf,
}

impl Official {
    /// Builds the program if need be.
    pub(crate) fn of(tool: Tool) -> Self {
        let program = tool.build(&Workspace::locate().unwrap()).unwrap();
        Self { program }
    }

    /// Its descriptors.
    pub(crate) fn descriptors(&self) -> DescriptorPool {
        DescriptorPool::decode(self.run("describe", &[]).as_slice()).unwrap()
    }

    /// Every message that it knows, filled by it.
    pub(crate) fn filled(&self) -> Vec<Any> {
        unpack(&self.run("fill", &[]))
    }

    /// The JSON of messages as it reads them; it refuses what it does not know.
    pub(crate) fn read(&self, messages: &[Any]) -> Vec<Value> {
        let bytes: Vec<_> = messages
            .iter()
            .flat_map(Message::encode_length_delimited_to_vec)
            .collect();
        let lines = String::from_utf8(self.run("decode", &bytes)).unwrap();
        lines
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    /// Messages as it writes them.
    pub(crate) fn write(&self, messages: &[Value]) -> Vec<Any> {
        let lines: String = messages
            .iter()
            .map(|message| format!("{message}\n"))
            .collect();
        unpack(&self.run("encode", lines.as_bytes()))
    }

    /// By way of a file: a pipe would fill while the other one is not read.
    fn run(&self, command: &str, input: &[u8]) -> Vec<u8> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(input).unwrap();
        file.rewind().unwrap();
        let output = Command::new(&self.program)
            .arg(command)
            .stdin(file)
            .output()
            .unwrap();
        let words = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "wire {command}: {words}");
        output.stdout
    }
}

/// A message in its envelope.
pub(crate) fn packed(name: &str, value: Vec<u8>) -> Any {
    Any {
        type_url: format!("{TYPE_URL}{name}"),
        value,
    }
}

/// The full name of what is in an envelope.
pub(crate) fn name(message: &Any) -> &str {
    message.type_url.strip_prefix(TYPE_URL).unwrap()
}

/// The JSON of a message in its envelope.
pub(crate) fn packed_json(message: &DynamicMessage) -> Value {
    let mut json = serde_json::to_value(message).unwrap();
    let url = format!("{TYPE_URL}{}", message.descriptor().full_name());
    json["@type"] = Value::String(url);
    json
}

fn unpack(mut bytes: &[u8]) -> Vec<Any> {
    let mut messages = Vec::new();
    while !bytes.is_empty() {
        messages.push(Any::decode_length_delimited(&mut bytes).unwrap());
    }
    messages
}
