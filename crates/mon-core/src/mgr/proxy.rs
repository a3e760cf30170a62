//! Commands of the manager that came to the monitor: handed on to the stock manager that is active, whose answers are passed back.
//!
//! ```text
//!            a command waits, the manager serves                 it is connected
//!   no link ────────────────────────────────────▶ dialling ─────────────────────▶ open: what waits goes out
//!      ▲                                              │                              │
//!      └──── the map names another one, or nobody ────┴──── the connection is cut ───┘
//! ```
//!
//! As Ceph's monitors do it: who may give the command is the monitor's to say, since a manager believes monitors; what waits is sent to
//! the manager that is active next, and to none while none is. If that is the endpoint of this process, it answers at once. The link is a
//! client's: our monitor has no counters to report, so it doesn't register as a daemon. Absent: the connection; that is the shell's.

use crate::Mon;
use crate::cmd::{self, Args, CmdError};
use crate::mon::Effect;
use crate::session::ConnId;
use base::{Clock, Stamp};
use bytes::Bytes;
use cephx::{Authorizer, Refusal};
use denc::DencError;
use messages::mon_client::{MMonCommand, MMonCommandAck};
use messages::{MCommandReply, MMgrCommand, MMgrCommandReply, Message, Paxos, RawMessage};
use std::collections::BTreeMap;
use std::time::Duration;
use types::{EntityAddrVec, EntityKind, EntityText, UTime, features};

/// A cut link is not dialled again sooner (`mgr_connect_retry_interval`).
const RETRY: Duration = Duration::from_secs(1);

/// A command under way.
#[derive(Debug)]
struct Waiting {
    conn: ConnId,
    /// The asker's number for it.
    tid: u64,
    cmd: Vec<String>,
    data: Bytes,
    /// Its line in the audit log, if it belongs there.
    audit: Option<String>,
}

impl Waiting {
    fn size(&self) -> usize {
        self.cmd.iter().map(String::len).sum::<usize>() + self.data.len()
    }
}

#[derive(Debug, Default, PartialEq)]
enum Link {
    #[default]
    None,
    Dialling(EntityAddrVec),
    Open(EntityAddrVec),
}

/// What waits for a manager's answer, by the number that the manager sees.
#[derive(Debug, Default)]
pub struct Proxy {
    waiting: BTreeMap<u64, Waiting>,
    last_tid: u64,
    /// What the commands that wait take, in bytes.
    held: usize,
    link: Link,
    /// When a link was cut.
    cut_at: Option<Stamp>,
}

impl Proxy {
    fn take(&mut self, tid: u64) -> Option<Waiting> {
        let gone = self.waiting.remove(&tid)?;
        self.held -= gone.size();
        Some(gone)
    }
    /// Nothing waits for these answers any more.
    pub(crate) fn forget(&mut self, conn: ConnId) {
        let gone: Vec<u64> = self.waiting.iter().filter(|(_, w)| w.conn == conn).map(|(tid, _)| *tid).collect();
        for tid in gone {
            self.take(tid);
        }
    }
    fn message(tid: u64, w: &Waiting) -> RawMessage {
        MMgrCommand { tid, data: w.data.clone(), cmd: w.cmd.clone(), ..MMgrCommand::default() }.encode(features::SUPPORTED)
    }
}

impl Mon {
    /// Whether the command changes something, if it is one that a manager answers and the asker may give it; `None` if it is ours.
    fn is_for_manager(&self, conn: ConnId, args: &Args) -> Result<Option<bool>, CmdError> {
        let theirs = self.mgrmap.commands.iter().find(|c| cmd::prefix_of(&c.signature) == args.prefix());
        let (module, perms, declared) = match (theirs, self.registry.find(args, false, false)) {
            (Some(c), _) => (c.module.as_str(), c.perms.as_str(), cmd::params_of(&c.signature).collect::<Vec<_>>()),
            (None, Some((c, sig))) if c.flags & cmd::flag::MGR != 0 => (c.module, c.perm, sig.names().collect()),
            _ => return Ok(None),
        };
        self.check_caps(conn, module, args.prefix(), perms, &declared, args)?;
        Ok(Some(perms != "r"))
    }

    /// Takes a command that belongs to a stock manager: true if it is one, answered now or later.
    pub(crate) fn hand_to_manager(&mut self, conn: ConnId, tid: u64, m: &MMonCommand) -> Result<bool, CmdError> {
        if self.mgrmap.is_endpoint() {
            return Ok(false);
        }
        // What can't be read is refused where commands are run.
        let Ok(args) = Args::parse(&m.cmd) else { return Ok(false) };
        let Some(writes) = self.is_for_manager(conn, &args)? else { return Ok(false) };
        let waiting = Waiting { conn, tid, cmd: m.cmd.clone(), data: m.data.clone(), audit: writes.then(|| m.cmd.concat()) };
        let most = self.config.mon_number("mon_client_bytes") * self.config.mon_number("mon_mgr_proxy_client_bytes_ratio");
        let proxy = &mut self.manager.proxy;
        if (proxy.held + waiting.size()) as f64 > most {
            return Err(CmdError::new(types::errno::EAGAIN, "hit limit on proxied mgr commands"));
        }
        proxy.held += waiting.size();
        proxy.last_tid += 1;
        if let Link::Open(_) = proxy.link {
            self.to_manager.push(Effect::SendManager { message: Proxy::message(proxy.last_tid, &waiting) });
        }
        proxy.waiting.insert(proxy.last_tid, waiting);
        Ok(true)
    }

    /// Keeps the link with the active manager, as long as anything waits for it.
    pub(crate) fn drive_proxy(&mut self, clock: Clock) {
        let proxy = &mut self.manager.proxy;
        if proxy.waiting.is_empty() && proxy.link == Link::None {
            return;
        }
        let map = &self.mgrmap.map;
        let wanted = (self.mgrmap.is_stock() && map.available).then_some(&map.active_addrs);
        if let Link::Dialling(addrs) | Link::Open(addrs) = &proxy.link
            && wanted != Some(addrs)
        {
            proxy.link = Link::None;
            self.to_manager.push(Effect::HangUpManager);
        }
        if self.mgrmap.is_endpoint() {
            for (_, w) in std::mem::take(&mut proxy.waiting) {
                self.manager.proxy.held -= w.size();
                let m = MMonCommand { fsid: self.options.fsid, cmd: w.cmd, data: w.data, ..MMonCommand::default() };
                self.run_for(w.conn, w.tid, m, clock);
            }
            return;
        }
        let rested = proxy.cut_at.is_none_or(|at| clock.mono.since(at) >= RETRY);
        if let Some(addrs) = wanted.filter(|_| proxy.link == Link::None && !proxy.waiting.is_empty() && rested) {
            proxy.link = Link::Dialling(addrs.clone());
            self.to_manager.push(Effect::DialManager { addrs: addrs.clone() });
        }
    }

    /// The link is open: all that waits goes out, also what went out over an earlier one.
    pub(crate) fn on_manager_open(&mut self) {
        let proxy = &mut self.manager.proxy;
        if let Link::Dialling(addrs) = &proxy.link {
            proxy.link = Link::Open(addrs.clone());
            self.to_manager.extend(proxy.waiting.iter().map(|(tid, w)| Effect::SendManager { message: Proxy::message(*tid, w) }));
        }
    }
    pub(crate) fn on_manager_closed(&mut self, clock: Clock) {
        self.manager.proxy.link = Link::None;
        self.manager.proxy.cut_at = Some(clock.mono);
    }
    /// An answer; a manager that can't be understood is hung up on.
    pub(crate) fn on_manager_message(&mut self, raw: &RawMessage, clock: Clock) {
        let read = || -> Result<Option<(i32, String, Bytes)>, DencError> {
            Ok(match raw.kind {
                MMgrCommandReply::KIND => MMgrCommandReply::decode(raw).map(|m| Some((m.result, m.status, m.data)))?,
                MCommandReply::KIND => MCommandReply::decode(raw).map(|m| Some((m.result, m.status, m.data)))?,
                _ => None,
            })
        };
        let (result, status, data) = match read() {
            Ok(Some(answer)) => answer,
            Ok(None) => return,
            Err(_) => {
                self.to_manager.push(Effect::HangUpManager);
                return self.on_manager_closed(clock);
            }
        };
        let Some(w) = self.manager.proxy.take(raw.tid) else { return };
        if let Some(text) = &w.audit {
            self.audit(w.conn, text, result >= 0, clock);
        }
        let ack = MMonCommandAck { tid: w.tid, data, paxos: Paxos::default(), result, status, cmd: w.cmd };
        self.send(w.conn, w.tid, &ack);
    }

    /// What a manager's endpoint wants of us, with cephx: a ticket that we make ourselves.
    pub fn manager_ticket(&mut self, clock: Clock) -> Result<Authorizer, Refusal> {
        let monitors = EntityText::new(EntityKind::MON, "");
        cephx::server::own_authorizer(&self.auth, &monitors, EntityKind::MGR, UTime::from_wall_ns(clock.wall_ns), self.entropy.as_mut())
    }
}
