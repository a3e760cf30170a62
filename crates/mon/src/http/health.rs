//! Ready or not, for what asks before it sends work: an address of its own, open to all that reach it, which says no more than that.
//!
//! | path | what |
//! |---|---|
//! | `/ready` | 200, or 503 with the reason |
//!
//! Absent: what counts as ready; that is told by the owner of the daemons.

use super::wire::{self, Answer, Asked};
use super::{PLAIN, Place, accept};
use anyhow::{Context, Result};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};

/// An owner that tells nothing for so long stands.
const STALE: Duration = Duration::from_secs(10);

/// How it is, as its owner tells again and again.
#[derive(Debug, Default)]
pub struct Ready(Mutex<Option<(Instant, Result<(), String>)>>);

impl Ready {
    /// How it is now; an error is the reason.
    pub fn tell(&self, state: Result<(), String>) {
        *self.0.lock().unwrap_or_else(|e| e.into_inner()) = Some((Instant::now(), state));
    }
    fn at(&self, now: Instant) -> Result<(), String> {
        match &*self.0.lock().unwrap_or_else(|e| e.into_inner()) {
            None => Err("it starts".into()),
            Some((told, _)) if now.saturating_duration_since(*told) > STALE => {
                Err(format!("its daemons were not looked after for {} s", STALE.as_secs()))
            }
            Some((_, state)) => state.clone(),
        }
    }
}

fn answer(asked: &Asked, state: Result<(), String>) -> Answer {
    match (asked.method.as_str(), asked.path.as_str(), state) {
        ("GET" | "HEAD", "/ready", Ok(())) => Answer::text(200, PLAIN, "ready\n"),
        ("GET" | "HEAD", "/ready", Err(why)) => Answer::text(503, PLAIN, format!("{why}\n")),
        ("GET" | "HEAD", ..) => Answer::text(404, PLAIN, "there is /ready\n"),
        _ => Answer::text(405, PLAIN, "this address is for looking only\n"),
    }
}

async fn visit(mut stream: TcpStream, _place: Place, ready: Arc<Ready>) -> io::Result<()> {
    match wire::read(&mut stream).await? {
        Ok(asked) => wire::send(&mut stream, &answer(&asked, ready.at(Instant::now())), asked.method == "HEAD").await,
        Err(status) => wire::send(&mut stream, &Answer::text(status, PLAIN, "a request that can't be read\n"), false).await,
    }
}

/// Answers at this address from now on, on a thread that lives as long as the process; the address, with its port.
pub fn serve(addr: SocketAddr, ready: Arc<Ready>) -> Result<SocketAddr> {
    let listener = std::net::TcpListener::bind(addr)?;
    listener.set_nonblocking(true)?;
    let at = listener.local_addr()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("a runtime")?;
    let answers = move || {
        tokio::task::LocalSet::new().block_on(&runtime, async move {
            let Ok(listener) = TcpListener::from_std(listener) else { return };
            accept(listener, move |stream, place| visit(stream, place, ready.clone())).await;
        });
    };
    std::thread::Builder::new().name("health".into()).spawn(answers)?;
    Ok(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    #[test]
    fn an_owner_that_stands_is_not_ready() {
        let (ready, now) = (Ready::default(), Instant::now());
        assert_eq!(ready.at(now), Err("it starts".into()));
        ready.tell(Ok(()));
        assert_eq!(ready.at(Instant::now()), Ok(()));
        assert!(ready.at(Instant::now() + STALE * 2).unwrap_err().contains("looked after"));
        ready.tell(Err("radosgw does not serve yet".into()));
        assert!(ready.at(Instant::now()).unwrap_err().contains("radosgw"));
    }

    #[test]
    fn it_says_ready_or_why_not_and_nothing_else() {
        let ready = Arc::new(Ready::default());
        let at = serve("127.0.0.1:0".parse().unwrap(), ready.clone()).unwrap();
        let ask = |line: &str| {
            let mut stream = std::net::TcpStream::connect(at).unwrap();
            write!(stream, "{line} HTTP/1.1\r\nHost: any.example\r\n\r\n").unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            answer
        };
        let starts = ask("GET /ready");
        assert!(starts.starts_with("HTTP/1.1 503 ") && starts.ends_with("\r\n\r\nit starts\n"), "{starts}");
        ready.tell(Ok(()));
        assert!(ask("GET /ready").starts_with("HTTP/1.1 200 "));
        let head = ask("HEAD /ready");
        assert!(head.starts_with("HTTP/1.1 200 ") && head.ends_with("\r\n\r\n"), "{head}");
        assert!(ask("GET /state").starts_with("HTTP/1.1 404 "));
        assert!(ask("POST /ready").starts_with("HTTP/1.1 405 "));
    }
}
