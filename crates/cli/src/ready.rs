//! Whether a cluster serves: `up` tells it at its health address, `humboldt ready` asks there.
//!
//! Absent: the listener, which is [`mon::health`]'s.

use crate::networks::from_here;
use anyhow::{Context, Result, anyhow, ensure};
use mon::health::{self, Ready};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two questions.
const PAUSE: Duration = Duration::from_millis(100);
/// Of an answer no more is read.
const ANSWER_MAX: u64 = 4 << 10;

#[derive(Debug, clap::Args)]
pub struct ReadyArgs {
    /// The health address that `humboldt up` was given.
    #[arg(long, value_name = "ADDRESS", env = "HUMBOLDT_HEALTH", default_value = "127.0.0.1:9280")]
    health: SocketAddr,
    /// Ask again for so many seconds until it serves.
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    wait: u64,
}

/// The health address of an `up`, if it is to have one.
pub struct Health(Option<(SocketAddr, Arc<Ready>)>);

impl Health {
    /// Listens from now on, and says that the cluster starts.
    pub fn listen(addr: Option<SocketAddr>) -> Result<Self> {
        let Some(addr) = addr else { return Ok(Self(None)) };
        let ready = Arc::new(Ready::default());
        let at = health::serve(addr, ready.clone())
            .map_err(|e| anyhow!("the health address {addr}: {e:#}: give another --health, or stop what listens there"))?;
        Ok(Self(Some((at, ready))))
    }

    pub fn announce(&self) {
        if let Some((at, _)) = &self.0 {
            say::println!("health: http://{at}/ready");
        }
    }

    /// How it is now: OSDs that run, and a server beside the cluster that does not serve.
    pub fn tell(&self, running: usize, missing: Option<&str>) {
        let Some((_, ready)) = &self.0 else { return };
        ready.tell(match missing {
            _ if running == 0 => Err("no OSD runs".into()),
            Some(name) => Err(format!("{name} does not serve yet")),
            None => Ok(()),
        });
    }
}

/// One question. An error says why it does not serve.
fn ask(addr: SocketAddr) -> Result<()> {
    let addr = from_here(addr);
    let mut stream = TcpStream::connect_timeout(&addr, PATIENCE)
        .with_context(|| format!("nothing answers at {addr}: give the address that `humboldt up --health` has"))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(stream, "GET /ready HTTP/1.1\r\nHost: {addr}\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.take(ANSWER_MAX).read_to_string(&mut answer).with_context(|| format!("the health address {addr}"))?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((answer.as_str(), ""));
    ensure!(head.split(' ').nth(1) == Some("200"), "it does not serve: {}", body.trim());
    Ok(())
}

/// `humboldt ready`.
pub fn ready(args: &ReadyArgs) -> Result<()> {
    let end = Instant::now() + Duration::from_secs(args.wait);
    loop {
        match ask(args.health) {
            Ok(()) => {
                say::println!("ready");
                return Ok(());
            }
            Err(e) if Instant::now() >= end => return Err(e),
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
}
