//! Commands to single daemons: a monitor, the active manager, an OSD. The cluster's own commands are `Cluster::mon_command`'s.

use crate::cluster::{CommandOutput, Inner};
use crate::{ClientError, Cluster};
use bytes::Bytes;
use denc::Denc;
use maps::MgrMap;
use messages::{LogEntry, MCommand, MCommandReply, MLog, MMgrCommand, MMgrCommandReply, MMgrMap, Message, RawMessage};
use msgr::Policy;
use net::{Conn, ConnId};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use tokio::sync::{mpsc, oneshot};
use types::{EntityAddrVec, EntityKind, OsdId, PgId, errno, features};

/// Requests to daemons, and what the monitor sends because it was subscribed to.
#[derive(Default)]
pub(crate) struct Daemons {
    last_tid: Cell<u64>,
    /// By number: the connection that it went out on.
    open: RefCell<HashMap<u64, (ConnId, oneshot::Sender<CommandOutput>)>>,
    mgrmap: RefCell<Option<Rc<MgrMap>>>,
    log: RefCell<Option<mpsc::UnboundedSender<LogEntry>>>,
}

impl Daemons {
    /// A message that is an answer to one of ours; true if it was.
    pub fn on_reply(&self, raw: &RawMessage) -> bool {
        let (tid, output) = match raw.kind {
            MCommandReply::KIND => match MCommandReply::decode(raw) {
                Ok(m) => (m.tid, CommandOutput { result: m.result, status: m.status, output: m.data }),
                Err(_) => return false,
            },
            MMgrCommandReply::KIND => match MMgrCommandReply::decode(raw) {
                Ok(m) => (m.tid, CommandOutput { result: m.result, status: m.status, output: m.data }),
                Err(_) => return false,
            },
            _ => return false,
        };
        let Some((_, waiter)) = self.open.borrow_mut().remove(&tid) else { return false };
        // What waited may have been given up.
        let _ = waiter.send(output);
        true
    }
    /// A connection is gone: what went out on it has no answer.
    pub fn on_lost(&self, conn: &Conn) {
        self.open.borrow_mut().retain(|_, (id, _)| *id != conn.id());
    }
    pub fn end(&self) {
        self.open.borrow_mut().clear();
        self.log.take();
    }
}

impl Inner {
    /// What else than answers a monitor sends; true if it was for us.
    pub(crate) fn on_news(&self, raw: &RawMessage) -> bool {
        match raw.kind {
            MMgrMap::KIND => {
                if let Ok(map) = MMgrMap::decode(raw).and_then(|m| MgrMap::from_bytes(&m.map.0)) {
                    let (_, effects) = self.mon.with(|core, _| core.got("mgrmap", map.epoch.into()));
                    self.on_mon(effects);
                    *self.daemons.mgrmap.borrow_mut() = Some(Rc::new(map));
                    self.changed.notify_waiters();
                }
                true
            }
            MLog::KIND => {
                if let Ok(m) = MLog::decode(raw) {
                    let log = self.daemons.log.borrow();
                    for entry in m.entries {
                        log.iter().for_each(|log| drop(log.send(entry.clone())));
                    }
                }
                true
            }
            _ => false,
        }
    }
}

impl Cluster {
    /// Sends a command and waits for its answer. A daemon that can't be reached is `ENXIO`.
    async fn command_at(
        &self,
        kind: EntityKind,
        addrs: EntityAddrVec,
        encode: impl FnOnce(u64) -> RawMessage,
    ) -> Result<CommandOutput, ClientError> {
        let inner = &self.0;
        let tid = inner.daemons.last_tid.get() + 1;
        inner.daemons.last_tid.set(tid);
        let (sender, receiver) = oneshot::channel();
        let conn = inner.messenger.connect(kind, addrs, Policy::lossy_client());
        inner.daemons.open.borrow_mut().insert(tid, (conn.id(), sender));
        conn.send(encode(tid));
        receiver.await.map_err(|_| ClientError::Errno(errno::ENXIO))
    }

    fn told(&self, json: &str, input: Bytes) -> impl FnOnce(u64) -> RawMessage {
        let m = MCommand { fsid: self.fsid().unwrap_or_default(), cmd: vec![json.into()], data: input, ..MCommand::default() };
        move |tid| MCommand { tid, ..m }.encode(features::SUPPORTED)
    }

    /// A command to an OSD, as JSON (`ceph tell osd.0 ...`).
    pub async fn tell_osd(&self, osd: OsdId, json: &str, input: Bytes) -> Result<CommandOutput, ClientError> {
        let map = self.map();
        if !map.exists(osd) {
            return Err(ClientError::Errno(errno::ENOENT));
        }
        if !map.is_up(osd) {
            return Err(ClientError::Errno(errno::ENXIO));
        }
        let addrs = map.client_addrs.get(osd as usize).cloned().unwrap_or_default();
        self.command_at(EntityKind::OSD, addrs, self.told(json, input)).await
    }
    /// A command to the primary of a placement group.
    pub async fn tell_pg(&self, pg: PgId, json: &str, input: Bytes) -> Result<CommandOutput, ClientError> {
        let map = self.map();
        if map.pool(pg.pool).is_none_or(|pool| pg.seed >= pool.pg_num) {
            return Err(ClientError::Errno(errno::ENOENT));
        }
        let primary = map.pg_to_up_acting(pg, &mut maps::Placement::default()).acting_primary;
        if primary < 0 {
            return Err(ClientError::Errno(errno::EAGAIN));
        }
        self.tell_osd(primary, json, input).await
    }
    /// A command to one monitor rather than to the cluster (`ceph tell mon.a ...`).
    pub async fn tell_mon(&self, name: &str, json: &str, input: Bytes) -> Result<CommandOutput, ClientError> {
        let addrs = self.monitors().into_iter().find(|(mon, _)| mon == name).map(|(_, addrs)| addrs);
        let addrs = addrs.ok_or(ClientError::Errno(errno::ENOENT))?;
        self.command_at(EntityKind::MON, addrs, self.told(json, input)).await
    }
    /// Names and addresses of the monitors, in the order of their ranks.
    pub fn monitors(&self) -> Vec<(String, EntityAddrVec)> {
        let (map, _) = self.0.mon.with(|core, _| core.monmap().cloned());
        let Some(map) = map else { return Vec::new() };
        map.ranks.iter().filter_map(|name| Some((name.clone(), map.mons.get(name)?.public_addrs.clone()))).collect()
    }

    /// The map of managers, once there is an active one.
    pub async fn active_manager(&self) -> Result<Rc<MgrMap>, ClientError> {
        let (_, effects) = self.0.mon.with(|core, out| core.subscribe_to("mgrmap", 0, 0, out));
        self.0.on_mon(effects);
        loop {
            let changed = self.0.changed.notified();
            if let Some(map) = self.0.daemons.mgrmap.borrow().clone() {
                if map.active_gid != 0 && map.available {
                    return Ok(map);
                }
                if map.flags & MgrMap::FLAG_DOWN != 0 {
                    return Err(ClientError::Errno(errno::ENXIO));
                }
            }
            changed.await;
        }
    }
    /// A command that the active manager answers for the cluster.
    pub async fn mgr_command(&self, json: &str, input: Bytes) -> Result<CommandOutput, ClientError> {
        let addrs = self.active_manager().await?.active_addrs.clone();
        let m = MMgrCommand { fsid: self.fsid().unwrap_or_default(), cmd: vec![json.into()], data: input, ..MMgrCommand::default() };
        self.command_at(EntityKind::MGR, addrs, move |tid| MMgrCommand { tid, ..m }.encode(features::SUPPORTED)).await
    }
    /// A command to the active manager itself (`ceph tell mgr ...`).
    pub async fn tell_mgr(&self, json: &str, input: Bytes) -> Result<CommandOutput, ClientError> {
        let addrs = self.active_manager().await?.active_addrs.clone();
        self.command_at(EntityKind::MGR, addrs, self.told(json, input)).await
    }

    /// Lines of the cluster log from now on; `level` is `debug`, `info`, `sec`, `warn` or `error`.
    pub fn watch_log(&self, level: &str) -> mpsc::UnboundedReceiver<LogEntry> {
        let (sender, receiver) = mpsc::unbounded_channel();
        *self.0.daemons.log.borrow_mut() = Some(sender);
        let (_, effects) = self.0.mon.with(|core, out| core.subscribe_to(&format!("log-{level}"), 0, 0, out));
        self.0.on_mon(effects);
        receiver
    }
}
