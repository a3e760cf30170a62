//! The manager endpoint's web address: metrics for Prometheus (`/metrics`), a page to look at (`/`), and what the page is made of (`/state`, `/past`,
//! `/events`). Read only; nothing is fetched from elsewhere.
//!
//! | path | what |
//! |---|---|
//! | `/` | the page, with its `/page.css` and `/page.js` |
//! | `/state` | the state of the cluster, as JSON ([`mon_core::Mon::view`]) |
//! | `/past` | the last hour ([`mon_core::Mon::past_view`]) |
//! | `/events` | both as they change, as server-sent events |
//! | `/metrics` | for Prometheus |
//!
//! Holds the listener and the paths (here), one request and its answer as bytes (`wire`), what a visitor must show (`guard`), and the viewers of the
//! page (`viewers`); and an address of its own for ready or not (`health`). Absent: anything that changes a cluster.

mod guard;
pub mod health;
mod viewers;
mod wire;

use crate::run::Shared;
use anyhow::{Context, Result, ensure};
use guard::{Guard, Verdict};
use net::half_open::{HalfOpens, Source};
use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::spawn_local;
use viewers::{Events, Viewers};
use wire::{Answer, Asked};

/// Requests that are not answered; for one more, the oldest of the address that has the most is given up. Streams of events are bounded by `viewers`.
const OPEN_MAX: usize = 64;
/// The port of the manager's `prometheus` module.
pub const PORT: u16 = 9283;

const PAGE: &str = include_str!("page.html");
const CSS: &str = include_str!("page.css");
const JS: &str = include_str!("page.js");

const PLAIN: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";
const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Where to serve, and for which clients.
#[derive(Debug, Clone)]
pub struct HttpConfig {
    pub listen: SocketAddr,
    /// Another port will do if this one is taken.
    pub elsewhere: bool,
    /// What visitors must show; needed wherever others than this machine reach the address.
    pub token: Option<String>,
}

/// A token may be tried by all who reach the address, as often as they like.
const TOKEN_MIN: usize = 16;

impl HttpConfig {
    /// Refuses an address that others reach without a token.
    pub fn check(&self) -> Result<()> {
        ensure!(
            self.listen.ip().is_loopback() || self.token.as_ref().is_some_and(|t| t.len() >= TOKEN_MIN),
            "{} is reached from other machines: give --http-token with at least {TOKEN_MIN} characters, which visitors must then show, or an address of this \
             machine alone (127.0.0.1)",
            self.listen
        );
        Ok(())
    }
}

/// What all requests share.
struct Server {
    shared: Rc<Shared>,
    guard: Guard,
    viewers: Viewers,
}

/// Listens and serves from now on; the address.
pub async fn serve(shared: Rc<Shared>, config: &HttpConfig) -> Result<SocketAddr> {
    config.check()?;
    let bound = net::listen(config.listen);
    let listener = match bound {
        Err(e) if config.elsewhere && e.kind() == std::io::ErrorKind::AddrInUse => net::listen(SocketAddr::new(config.listen.ip(), 0)),
        bound => bound,
    };
    let listener = listener.with_context(|| format!("the web address {}", config.listen))?;
    let addr = listener.local_addr()?;
    let server = Rc::new(Server { guard: Guard::new(config.token.clone()), viewers: Viewers::new(shared.clone()), shared });
    let visit = move |stream, place| {
        let server = server.clone();
        async move { server.visit(stream, place).await }
    };
    spawn_local(accept(listener, visit));
    Ok(addr)
}

/// Lets visitors in, each with a place.
async fn accept<F: Future<Output = std::io::Result<()>> + 'static>(listener: TcpListener, visit: impl Fn(TcpStream, Place) -> F) {
    let room = Room::default();
    loop {
        let Ok((stream, from)) = listener.accept().await else {
            // Out of descriptors, most likely.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let place = Place::take(&room, from);
        let gone = place.gone.clone();
        let visited = visit(stream, place);
        spawn_local(async move {
            tokio::select! {
                // A visitor that breaks off is no news.
                _ = visited => {}
                () = gone.notified() => {}
            }
        });
    }
}

/// Visitors that have no answer yet.
type Room = Rc<RefCell<HalfOpens<Rc<Notify>>>>;

/// A visitor's place among them.
struct Place {
    room: Room,
    source: Source,
    number: u64,
    /// Another needs the place.
    gone: Rc<Notify>,
}

impl Place {
    fn take(room: &Room, from: SocketAddr) -> Self {
        let (source, gone) = (Source::of(from.ip()), Rc::new(Notify::new()));
        let mut all = room.borrow_mut();
        if all.len() >= OPEN_MAX
            && let Some(other) = all.evict()
        {
            other.notify_one();
        }
        let number = all.add(source, gone.clone());
        Self { room: room.clone(), source, number, gone }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.room.borrow_mut().remove(self.source, self.number);
    }
}

impl Server {
    /// One request on a connection, which is closed behind its answer: a visitor comes every second at most.
    async fn visit(&self, mut stream: TcpStream, place: Place) -> std::io::Result<()> {
        let asked = match wire::read(&mut stream).await? {
            Ok(asked) => asked,
            Err(status) => return wire::send(&mut stream, &Answer::text(status, PLAIN, "a request that can't be read\n"), false).await,
        };
        let head = asked.method == "HEAD";
        match self.guard.look(&asked) {
            Verdict::Pass if asked.path == "/events" && asked.method == "GET" => match self.viewers.join() {
                Some(events) => {
                    drop(place);
                    stream_to(stream, events).await
                }
                None => wire::send(&mut stream, &Answer::text(503, PLAIN, "there are too many viewers, or no state yet\n"), false).await,
            },
            Verdict::Pass => wire::send(&mut stream, &self.answer(&asked), head).await,
            Verdict::Refuse(status, why) => wire::send(&mut stream, &Answer::text(status, PLAIN, why), head).await,
            Verdict::Remember(cookie, place) => {
                let mut answer = Answer::text(303, PLAIN, "");
                answer.more = format!("Set-Cookie: {cookie}\r\nLocation: {place}\r\n");
                wire::send(&mut stream, &answer, head).await
            }
        }
    }

    fn answer(&self, asked: &Asked) -> Answer {
        if !matches!(asked.method.as_str(), "GET" | "HEAD") {
            return Answer::text(405, PLAIN, "this address is for looking only\n");
        }
        let ready = |kind, body: Option<String>| match body {
            Some(body) => Answer::text(200, kind, body),
            None => Answer::text(503, PLAIN, "the monitor is not ready yet\n"),
        };
        match asked.path.as_str() {
            "/" => Answer::text(200, "text/html; charset=utf-8", PAGE),
            "/page.css" => Answer::text(200, "text/css; charset=utf-8", CSS),
            "/page.js" => Answer::text(200, "text/javascript; charset=utf-8", JS),
            "/metrics" => ready(METRICS, self.shared.metrics()),
            "/state" => ready(JSON, self.shared.view()),
            "/past" => ready(JSON, self.shared.past(0)),
            _ => Answer::text(404, PLAIN, "there are / and /metrics\n"),
        }
    }
}

/// Sends events until the viewer leaves.
async fn stream_to(stream: TcpStream, mut events: Events) -> std::io::Result<()> {
    let (mut from, mut to) = stream.into_split();
    wire::begin_events(&mut to).await?;
    let mut nothing = [0; 64];
    loop {
        tokio::select! {
            event = events.recv() => match event {
                Some(event) => wire::all(&mut to, &event).await?,
                None => return Ok(()),
            },
            // A viewer says nothing more; what it does then is leave.
            came = from.read(&mut nothing) => if came? == 0 { return Ok(()) },
        }
    }
}
