//! Objects of one pool.

use crate::ops::{self, Ops};
use crate::{ClientError, Cluster};
use bytes::Bytes;
use denc::{ByteStr, Decoder, Denc};
use net::mon_session::clock;
use objecter::objecter::{LingerEvent, Reply, Submit};
use std::collections::{BTreeMap, BTreeSet};
use tokio::sync::mpsc;
use types::{CEPH_NOSNAP, HObject, ObjectLocator, PgId, PoolId, SnapContext, SnapId, UTime};

/// How long an OSD keeps a silent watch.
const WATCH_TIMEOUT_S: u32 = 30;
/// Entries that one listing request asks for.
const LIST_MAX: u64 = 1000;
/// The name that stands for all namespaces in a listing (`LIBRADOS_ALL_NSPACES`).
const ALL_NAMESPACES: &str = "\u{1}";

/// A pool, and with what namespace, key and snapshots it is used. Cheap to clone.
#[derive(Clone)]
pub struct Pool {
    cluster: Cluster,
    locator: ObjectLocator,
    pub snapc: SnapContext,
    /// What reads see; [`CEPH_NOSNAP`] is the head.
    pub read_snap: SnapId,
    /// Further `types::osd_op::osd_flag`s of each request.
    pub flags: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    pub size: u64,
    pub mtime: UTime,
}

/// An object in a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    pub nspace: ByteStr,
    pub oid: ByteStr,
    /// What places it, if not its name.
    pub key: ByteStr,
}

/// What a watch tells.
#[derive(Debug, Clone, PartialEq)]
pub enum WatchEvent {
    /// To be answered by [`Watch::ack`].
    Notify { notify_id: u64, notifier_gid: u64, payload: Bytes },
    /// The watch is lost: a positive errno.
    Lost(i32),
}

/// A watch on an object, until [`Watch::close`].
pub struct Watch {
    pool: Pool,
    oid: ByteStr,
    cookie: u64,
    events: mpsc::UnboundedReceiver<LingerEvent>,
}

impl Pool {
    pub(crate) fn new(cluster: Cluster, id: PoolId) -> Self {
        Self { cluster, locator: ObjectLocator::pool(id), snapc: SnapContext::default(), read_snap: CEPH_NOSNAP, flags: 0 }
    }
    pub fn id(&self) -> PoolId {
        self.locator.pool
    }
    pub fn with_namespace(mut self, nspace: &str) -> Self {
        self.locator.nspace = nspace.into();
        self
    }
    /// Objects are placed by `key` instead of by their names.
    pub fn with_key(mut self, key: &str) -> Self {
        self.locator.key = key.into();
        self
    }
    /// A request as [`Cluster::operate`] takes it.
    pub fn request(&self, oid: impl Into<ByteStr>, ops: Ops) -> Submit {
        let mut submit = Submit::new(self.locator.clone(), oid.into(), ops);
        submit.snapc = self.snapc.clone();
        submit.snap = self.read_snap;
        submit.flags = self.flags;
        submit
    }
    /// Ops that take effect together.
    pub async fn operate(&self, oid: impl Into<ByteStr>, ops: Ops) -> Result<Reply, ClientError> {
        self.cluster.operate(self.request(oid, ops)).await
    }
    /// The data that the first op brought.
    async fn data(&self, oid: impl Into<ByteStr>, ops: Ops) -> Result<Bytes, ClientError> {
        let reply = self.operate(oid, ops).await?;
        Ok(reply.ops.into_iter().next().map(|op| op.outdata).unwrap_or_default())
    }

    pub async fn read(&self, oid: impl Into<ByteStr>, offset: u64, length: u64) -> Result<Bytes, ClientError> {
        self.data(oid, Ops::new().read(offset, length)).await
    }
    pub async fn write(&self, oid: impl Into<ByteStr>, offset: u64, data: Bytes) -> Result<(), ClientError> {
        self.operate(oid, Ops::new().write(offset, data)).await.map(drop)
    }
    pub async fn write_full(&self, oid: impl Into<ByteStr>, data: Bytes) -> Result<(), ClientError> {
        self.operate(oid, Ops::new().write_full(data)).await.map(drop)
    }
    pub async fn append(&self, oid: impl Into<ByteStr>, data: Bytes) -> Result<(), ClientError> {
        self.operate(oid, Ops::new().append(data)).await.map(drop)
    }
    pub async fn remove(&self, oid: impl Into<ByteStr>) -> Result<(), ClientError> {
        self.operate(oid, Ops::new().remove()).await.map(drop)
    }
    pub async fn stat(&self, oid: impl Into<ByteStr>) -> Result<Stat, ClientError> {
        let reply = self.operate(oid, Ops::new().stat()).await?;
        let (size, mtime) = ops::stat_of(&reply.ops[..].first().cloned().unwrap_or_default())?;
        Ok(Stat { size, mtime })
    }
    pub async fn get_xattr(&self, oid: impl Into<ByteStr>, name: &str) -> Result<Bytes, ClientError> {
        self.data(oid, Ops::new().get_xattr(name)).await
    }
    pub async fn set_xattr(&self, oid: impl Into<ByteStr>, name: &str, value: &[u8]) -> Result<(), ClientError> {
        self.operate(oid, Ops::new().set_xattr(name, value)).await.map(drop)
    }
    pub async fn xattrs(&self, oid: impl Into<ByteStr>) -> Result<BTreeMap<ByteStr, Bytes>, ClientError> {
        Ok(Denc::from_bytes(&self.data(oid, Ops::new().get_xattrs()).await?)?)
    }
    pub async fn omap_set(&self, oid: impl Into<ByteStr>, pairs: &BTreeMap<ByteStr, Bytes>) -> Result<(), ClientError> {
        self.operate(oid, Ops::new().omap_set(pairs)).await.map(drop)
    }
    pub async fn omap_remove(&self, oid: impl Into<ByteStr>, keys: &BTreeSet<ByteStr>) -> Result<(), ClientError> {
        self.operate(oid, Ops::new().omap_rm_keys(keys)).await.map(drop)
    }
    /// Pairs behind `start_after`, at most `max` of them, and whether there are more.
    pub async fn omap_get(
        &self,
        oid: impl Into<ByteStr>,
        start_after: &str,
        max: u64,
    ) -> Result<(BTreeMap<ByteStr, Bytes>, bool), ClientError> {
        let mut d = Decoder::new(self.data(oid, Ops::new().omap_get_vals(start_after, "", max)).await?);
        Ok((d.get()?, !d.is_empty() && d.bool()?))
    }
    /// Calls a method of an object class.
    pub async fn exec(&self, oid: impl Into<ByteStr>, class: &str, method: &str, input: &[u8], write: bool) -> Result<Bytes, ClientError> {
        self.data(oid, Ops::new().exec(class, method, input, write)).await
    }

    /// Watches an object.
    pub async fn watch(&self, oid: impl Into<ByteStr>) -> Result<Watch, ClientError> {
        let oid = oid.into();
        let (sender, mut events) = mpsc::unbounded_channel();
        let inner = &self.cluster.0;
        let cookie = inner.objecter(|o, out| {
            let cookie = o.watch(self.locator.clone(), oid.clone(), WATCH_TIMEOUT_S, clock(), out);
            inner.lingers.borrow_mut().insert(cookie, sender);
            cookie
        });
        match events.recv().await {
            Some(LingerEvent::Registered(0)) => Ok(Watch { pool: self.clone(), oid, cookie, events }),
            Some(LingerEvent::Registered(error) | LingerEvent::Error(error)) => {
                inner.lingers.borrow_mut().remove(&cookie);
                Err(ClientError::Errno(-error))
            }
            _ => Err(ClientError::Shutdown),
        }
    }
    /// Notifies all watchers of an object and waits for their answers: encoded, as the OSD put them together.
    pub async fn notify(&self, oid: impl Into<ByteStr>, payload: Bytes, timeout_s: u32) -> Result<Bytes, ClientError> {
        let (sender, mut events) = mpsc::unbounded_channel();
        let inner = &self.cluster.0;
        let oid = oid.into();
        let cookie = inner.objecter(|o, out| {
            let cookie = o.notify(self.locator.clone(), oid, timeout_s, payload, clock(), out);
            inner.lingers.borrow_mut().insert(cookie, sender);
            cookie
        });
        let event = events.recv().await;
        inner.lingers.borrow_mut().remove(&cookie);
        match event {
            Some(LingerEvent::NotifyDone { result: 0.., answers }) => Ok(answers),
            Some(LingerEvent::NotifyDone { result, .. }) => Err(ClientError::Errno(-result)),
            _ => Err(ClientError::Shutdown),
        }
    }

    /// Names of the objects of our namespace, in the order of the placement groups.
    pub async fn list(&self) -> Result<Vec<ByteStr>, ClientError> {
        Ok(self.list_named().await?.into_iter().map(|entry| entry.oid).collect())
    }
    /// The same, with what else a listing says.
    pub async fn list_named(&self) -> Result<Vec<Listed>, ClientError> {
        self.list_in(self.locator.nspace.clone()).await
    }
    /// Objects of all namespaces.
    pub async fn list_all(&self) -> Result<Vec<Listed>, ClientError> {
        self.list_in(ALL_NAMESPACES.into()).await
    }
    async fn list_in(&self, nspace: ByteStr) -> Result<Vec<Listed>, ClientError> {
        let map = self.cluster.map();
        let pg_num = map.pool(self.id()).map_or(0, |p| p.pg_num);
        let mut names = Vec::new();
        // As hashes go: from the bit that tells most groups apart.
        let mut seeds: Vec<u32> = (0..pg_num).collect();
        seeds.sort_by_key(|seed| seed.reverse_bits());
        for seed in seeds {
            let mut cursor = HObject { hash: seed, pool: self.id(), snap: CEPH_NOSNAP, ..HObject::min() };
            loop {
                let ops = Ops::new().pgnls(LIST_MAX, 0, cursor.to_bytes(types::features::SUPPORTED));
                let submit = Submit::on_pg(PgId::new(self.id(), seed), nspace.clone(), ops);
                let reply = self.cluster.operate(submit).await?;
                let Some(out) = reply.ops.first() else { break };
                let (next, entries) = Decoder::new(out.outdata.clone()).frame("pg_nls_response_t", 2, |d, _| {
                    let next: HObject = d.get()?;
                    let n = d.count(12)?;
                    let mut entries = Vec::new();
                    for _ in 0..n {
                        entries.push(Listed { nspace: d.get()?, oid: d.get()?, key: d.get()? });
                    }
                    Ok((next, entries))
                })?;
                names.extend(entries);
                if reply.result == 1 || next.max {
                    break;
                }
                cursor = next;
            }
        }
        Ok(names)
    }
}

impl Watch {
    pub fn cookie(&self) -> u64 {
        self.cookie
    }
    /// The next event; None once the client is shut down.
    pub async fn next(&mut self) -> Option<WatchEvent> {
        loop {
            match self.events.recv().await? {
                LingerEvent::Notify { notify_id, notifier_gid, payload } => {
                    return Some(WatchEvent::Notify { notify_id, notifier_gid, payload });
                }
                LingerEvent::Error(error) => return Some(WatchEvent::Lost(-error)),
                LingerEvent::Registered(_) | LingerEvent::NotifyDone { .. } => {}
            }
        }
    }
    /// Answers a notify.
    pub async fn ack(&self, notify_id: u64, reply: &[u8]) -> Result<(), ClientError> {
        let ops = Ops::new().notify_ack(notify_id, self.cookie, reply);
        self.pool.operate(self.oid.clone(), ops).await.map(drop)
    }
    pub async fn close(self) -> Result<(), ClientError> {
        self.pool.cluster.unwatch(self.cookie).await
    }
}
