//! A headless Chromium that tests drive by its own protocol, over two pipes.

use crate::pace::as_at_rest;
use crate::run::until;
use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// How long the browser may take to answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// A browser with one page.
pub struct Browser {
    child: Child,
    to: File,
    from: Receiver<Value>,
    last: u64,
    session: Option<String>,
    /// What the page complained of.
    pub complaints: Vec<String>,
}

/// Installs Chromium if it is not there.
fn installed() -> Result<()> {
    if Path::new("/usr/bin/chromium").exists() {
        return Ok(());
    }
    println!("installing chromium");
    crate::clients::apt(&["install", "-y", "-q", "--no-install-recommends", "chromium"])
}

impl Browser {
    /// Starts one that keeps what it keeps in `dir`.
    pub fn start(dir: &Path) -> Result<Self> {
        installed()?;
        std::fs::create_dir_all(dir)?;
        let pipes: Vec<PathBuf> = ["in", "out"].iter().map(|name| dir.join(name)).collect();
        for pipe in &pipes {
            let _ = std::fs::remove_file(pipe);
            ensure!(Command::new("mkfifo").arg(pipe).status()?.success(), "mkfifo {}", pipe.display());
        }
        // The protocol's pipes are the numbers 3 and 4.
        let script = "exec /usr/bin/chromium --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --hide-scrollbars --no-first-run \
                      --remote-debugging-pipe --user-data-dir=\"$0/profile\" about:blank 3<\"$0/in\" 4>\"$0/out\"";
        let child =
            Command::new("sh").args(["-c", script]).arg(dir).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        let to = OpenOptions::new().write(true).open(&pipes[0])?;
        let mut out = BufReader::new(File::open(&pipes[1])?);
        let (tell, from) = channel();
        std::thread::spawn(move || {
            let mut text = Vec::new();
            while out.read_until(0, &mut text).is_ok_and(|n| n > 0) {
                text.pop();
                if let Ok(message) = serde_json::from_slice(&text)
                    && tell.send(message).is_err()
                {
                    return;
                }
                text.clear();
            }
        });
        Ok(Self { child, to, from, last: 0, session: None, complaints: Vec::new() })
    }

    /// Asks, and waits for the answer.
    pub fn ask(&mut self, method: &str, params: Value) -> Result<Value> {
        self.last += 1;
        let mut message = json!({"id": self.last, "method": method, "params": params});
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        self.to.write_all(format!("{message}\0").as_bytes())?;
        let end = Instant::now() + as_at_rest(PATIENCE);
        while let Ok(message) = self.from.recv_timeout(end.saturating_duration_since(Instant::now())) {
            if message["id"] == self.last {
                if !message["error"].is_null() {
                    bail!("{method}: {}", message["error"]);
                }
                return Ok(message["result"].clone());
            }
            self.note(&message);
        }
        bail!("the browser does not answer {method}")
    }
    fn note(&mut self, message: &Value) {
        let params = &message["params"];
        let complaint = match message["method"].as_str() {
            Some("Runtime.exceptionThrown") => Some(&params["exceptionDetails"]),
            Some("Runtime.consoleAPICalled") if matches!(params["type"].as_str(), Some("error" | "warning" | "assert")) => {
                Some(&params["args"])
            }
            Some("Log.entryAdded") if matches!(params["entry"]["level"].as_str(), Some("error" | "warning")) => Some(&params["entry"]),
            _ => None,
        };
        self.complaints.extend(complaint.map(Value::to_string));
    }

    /// Opens a page.
    pub fn open(&mut self, url: &str) -> Result<()> {
        let made = self.ask("Target.createTarget", json!({"url": "about:blank"}))?;
        let attached = self.ask("Target.attachToTarget", json!({"targetId": made["targetId"], "flatten": true}))?;
        self.session = Some(attached["sessionId"].as_str().context("a session")?.into());
        for domain in ["Runtime.enable", "Log.enable", "Page.enable"] {
            self.ask(domain, json!({}))?;
        }
        self.ask("Page.navigate", json!({"url": url}))?;
        Ok(())
    }
    /// The value of an expression in the page.
    pub fn value(&mut self, expression: &str) -> Result<Value> {
        let answer = self.ask("Runtime.evaluate", json!({"expression": expression, "returnByValue": true, "awaitPromise": true}))?;
        if !answer["exceptionDetails"].is_null() {
            bail!("{expression}: {}", answer["exceptionDetails"]);
        }
        Ok(answer["result"]["value"].clone())
    }
    /// Waits until an expression is true.
    pub fn wait(&mut self, expression: &str, limit: Duration) -> Result<()> {
        if until(limit, || self.value(expression).is_ok_and(|v| v == true)) {
            return Ok(());
        }
        let text = self.value("document.body.innerText")?;
        bail!("`{expression}` is not true after {} s; the page says\n{}", limit.as_secs(), text.as_str().unwrap_or_default())
    }
    /// How wide the window is, light or dark.
    pub fn look(&mut self, width: u32, height: u32, dark: bool) -> Result<()> {
        let scheme = if dark { "dark" } else { "light" };
        self.ask("Emulation.setEmulatedMedia", json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]}))?;
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}),
        )?;
        Ok(())
    }
    /// A picture of the whole page.
    pub fn picture(&mut self, file: &Path) -> Result<()> {
        let answer = self.ask("Page.captureScreenshot", json!({"format": "png", "captureBeyondViewport": true}))?;
        let text = answer["data"].as_str().context("a picture")?;
        let mut decode = Command::new("base64").arg("-d").stdin(Stdio::piped()).stdout(File::create(file)?).spawn()?;
        decode.stdin.take().expect("piped").write_all(text.as_bytes())?;
        ensure!(decode.wait()?.success(), "the picture can't be read");
        Ok(())
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
