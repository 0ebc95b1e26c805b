//! Chromium without a window, driven by the DevTools protocol over a pipe (`--remote-debugging-pipe`): messages are JSON, and each ends in NUL.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use xtask::failure::Failure;

/// Longest wait for an answer, and for what must come: a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(100);
/// Joins the pipe's descriptors, which are 3 and 4, to those that a child has from its parent.
const JOIN: &str = r#"exec "$@" 3<&0 4>&1 </dev/null >&2"#;
const FLAGS: [&str; 8] = [
    "--headless",
    // Tests run as root, for which Chromium has no sandbox.
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--hide-scrollbars",
    "--no-first-run",
    "--remote-debugging-pipe",
];

/// A browser with one page.
#[derive(Debug)]
pub struct Browser {
    process: Child,
    input: ChildStdin,
    answers: Receiver<Value>,
    session: String,
    sent: u64,
    folder: TempDir,
}

impl Browser {
    /// Opens a page. Call it on a thread that outlives the browser.
    pub fn open(url: &str) -> Result<Self, Failure> {
        let folder = tempfile::tempdir().map_err(Failure::cannot("create a directory"))?;
        let log = File::create(folder.path().join("log"));
        let log = log.map_err(Failure::cannot("create the log of chromium"))?;
        let mut command = Command::new("setpriv");
        command
            .args([
                "--pdeathsig",
                "KILL",
                "--",
                "sh",
                "-c",
                JOIN,
                "sh",
                "chromium",
            ])
            .args(FLAGS)
            .arg(format!("--user-data-dir={}", folder.path().display()))
            .arg("about:blank")
            // A killed browser removes nothing.
            .env("HOME", folder.path())
            .env("TMPDIR", folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log);
        let failed = || Failure::cannot("start chromium");
        let mut process = command.spawn().map_err(failed())?;
        let pipes = process.stdin.take().zip(process.stdout.take());
        let (input, output) = pipes.ok_or_else(|| Failure::missing("a pipe", "chromium"))?;
        let (sender, answers) = channel();
        thread::spawn(move || read(output, &sender));
        let mut browser = Self {
            process,
            input,
            answers,
            session: String::new(),
            sent: 0,
            folder,
        };
        let target = browser.call("Target.createTarget", json!({ "url": url }))?;
        let attach = json!({ "targetId": at(&target, "/targetId"), "flatten": true });
        let attached = browser.call("Target.attachToTarget", attach)?;
        let session = at(&attached, "/sessionId");
        session
            .as_str()
            .unwrap_or_default()
            .clone_into(&mut browser.session);
        Ok(browser)
    }

    /// The value of an expression in the page.
    pub fn value(&mut self, expression: &str) -> Result<Value, Failure> {
        let parameters = json!({ "expression": expression, "returnByValue": true });
        let answer = self.call("Runtime.evaluate", parameters)?;
        match answer.get("exceptionDetails") {
            Some(exception) => Err(Failure::Unexpected(format!("{expression}: {exception}"))),
            None => Ok(at(&answer, "/result/value")),
        }
    }

    /// The text that is seen on the page.
    pub fn text(&mut self) -> Result<String, Failure> {
        let text = self.value("document.body.innerText")?;
        Ok(text.as_str().unwrap_or_default().to_owned())
    }

    /// Waits until an expression is true.
    pub fn until(&mut self, expression: &str) -> Result<(), Failure> {
        let end = Instant::now() + PATIENCE;
        loop {
            match self.value(expression) {
                Ok(value) if value == true => return Ok(()),
                Ok(_) => {}
                // The page is being loaded.
                Err(error) if error.to_string().contains("execution context") => {}
                Err(error) => return Err(error),
            }
            if Instant::now() > end {
                let text = self.text()?;
                return Err(Failure::Unexpected(format!(
                    "never: {expression}; the page says:\n{text}"
                )));
            }
            thread::sleep(LOOK);
        }
    }

    /// A picture of the top of the page, as PNG.
    pub fn picture(&mut self, width: u32, height: u32) -> Result<Vec<u8>, Failure> {
        let size =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", size)?;
        let picture = self.call("Page.captureScreenshot", json!({ "format": "png" }))?;
        let data = at(&picture, "/data");
        let decoded = BASE64_STANDARD.decode(data.as_str().unwrap_or_default());
        decoded.map_err(Failure::cannot("read the picture"))
    }

    /// Calls a method of the protocol; returns its result.
    pub fn call(&mut self, method: &str, parameters: Value) -> Result<Value, Failure> {
        self.sent += 1;
        let session = (!self.session.is_empty()).then_some(&self.session);
        let mut message = json!({ "id": self.sent, "method": method, "params": parameters });
        if let (Some(session), Some(message)) = (session, message.as_object_mut()) {
            message.insert("sessionId".to_owned(), json!(session));
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        let failed = || Failure::cannot(format!("ask chromium: {method}"));
        self.input.write_all(&bytes).map_err(failed())?;
        loop {
            let answer = self.answers.recv_timeout(PATIENCE);
            let answer = answer.map_err(|error| self.silent(method, &error.to_string()))?;
            // Others are events.
            if at(&answer, "/id") != self.sent {
                continue;
            }
            return match answer.get("error") {
                Some(error) => Err(Failure::Unexpected(format!("{method}: {error}"))),
                None => Ok(at(&answer, "/result")),
            };
        }
    }

    /// A failure with the log.
    fn silent(&self, method: &str, reason: &str) -> Failure {
        let log = fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
        Failure::Unexpected(format!(
            "chromium does not answer {method}: {reason}\n{log}"
        ))
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // It ends its other processes; the method is not one of a page.
        self.session.clear();
        let _ = self.call("Browser.close", json!({}));
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A part of an answer; null without it.
fn at(answer: &Value, pointer: &str) -> Value {
    answer.pointer(pointer).cloned().unwrap_or_default()
}

fn read(output: ChildStdout, to: &Sender<Value>) {
    for message in BufReader::new(output).split(0) {
        let parsed = message.ok().and_then(|it| serde_json::from_slice(&it).ok());
        let sent = parsed.map(|value| to.send(value));
        // Nothing more can be read, or nobody waits for it.
        if !matches!(sent, Some(Ok(()))) {
            return;
        }
    }
}
