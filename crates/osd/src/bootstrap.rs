//! Registering an OSD: the session with a monitor in which [`Registration`] has its commands carried out.

use crate::{Admin, Me};
use anyhow::{Result, anyhow, bail};
use base::Clock;
use bytes::Bytes;
use cephx::{ClientAuth, CryptoKey, Identity};
use messages::RawMessage;
use msgr::Local;
use net::auth_cephx::Dialer;
use net::mon_session::MonSession;
use net::{Config, Conn, Dispatcher, Messenger};
use objecter::MonClient;
use objecter::monc::{Answer, Effect, Request, TICKETS};
use osd_core::daemon::{Registration, Step};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::Notify;
use types::{EntityAddr, EntityAddrVec, EntityKind};

/// How long the monitor may take to answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// A client that sends commands and waits for their answers.
struct Commander {
    mon: MonSession,
    answers: RefCell<BTreeMap<u64, (i32, String, Bytes)>>,
    changed: Notify,
}

impl Commander {
    fn take(&self, effects: Vec<Effect>) {
        for effect in effects {
            if let Effect::Answer(Answer::Command { tid, result, status, output }) = effect {
                self.answers.borrow_mut().insert(tid, (result, status, output));
                self.changed.notify_one();
            }
        }
    }
    async fn command(&self, cmd: String, input: Bytes) -> Result<(i32, String)> {
        let request = Request::Command { cmd: vec![cmd], input };
        let (tid, effects) = self.mon.with(|core, out| core.request(request, out));
        self.take(effects);
        let answer = async {
            loop {
                if let Some(answer) = self.answers.borrow_mut().remove(&tid) {
                    return (answer.0, answer.1);
                }
                self.changed.notified().await;
            }
        };
        tokio::time::timeout(PATIENCE, answer).await.map_err(|_| anyhow!("no monitor answers"))
    }
}

impl Dispatcher for Commander {
    fn on_message(&self, conn: &Conn, message: RawMessage) {
        if self.mon.is_mine(conn)
            && let Some(effects) = self.mon.on_message(&message)
        {
            self.take(effects);
        }
    }
    fn on_connect(&self, conn: &Conn) {
        if self.mon.is_mine(conn) {
            self.take(self.mon.on_connect());
        }
    }
    fn on_reset(&self, conn: &Conn) {
        if self.mon.is_mine(conn) {
            self.take(self.mon.on_reset());
        }
    }
    fn on_dial_failed(&self, conn: &Conn, _: &net::DialError, _: u32) {
        if self.mon.is_mine(conn) {
            self.take(self.mon.on_dial_failed());
        }
    }
}

/// Makes the map know this OSD by this uuid, and the monitor by `key`: destroying an OSD takes its key away. True if the map knew another
/// uuid, whose data are gone.
pub async fn osd_new(
    me: Me,
    key: Option<&CryptoKey>,
    admin: &Admin,
    monitors: &[EntityAddrVec],
    store_is_new: bool,
    clock: fn() -> Clock,
) -> Result<bool> {
    let identity = match &admin.key {
        Some(key) => Identity::Cephx(ClientAuth::new(admin.name.clone(), key.clone(), &TICKETS)),
        None => Identity::none(admin.name.clone()),
    };
    let identity = Rc::new(RefCell::new(identity));
    let dialer = Dialer::new(identity.clone());
    let mut entropy = net::auth_cephx::entropy();
    let (seed, nonce) = (cephx::Entropy::u64(&mut entropy), cephx::Entropy::u64(&mut entropy) as u32);
    let addrs = EntityAddrVec::one(EntityAddr { kind: types::AddrType::MSGR2, nonce, ..EntityAddr::default() });
    let local = Local::new(EntityKind::CLIENT, -1, addrs, Rc::new(dialer.clone()), seed);
    let messenger = Messenger::new(Rc::new(local), Config::default());
    let core = MonClient::new(identity, monitors.to_vec(), crate::metadata::hostname(), seed ^ clock().wall_ns);
    let mon = MonSession::new(messenger.clone(), core, &dialer);
    let commander = Rc::new(Commander { mon: mon.clone(), answers: RefCell::default(), changed: Notify::new() });
    messenger.set_dispatcher(commander.clone());
    commander.take(mon.start());
    let ticking = {
        let commander = commander.clone();
        tokio::task::spawn_local(async move {
            loop {
                tokio::time::sleep(Duration::from_secs(1)).await;
                commander.take(commander.mon.tick());
            }
        })
    };
    let result = register(&commander, me, key.map(CryptoKey::to_base64), store_is_new).await;
    ticking.abort();
    messenger.shutdown();
    result
}

async fn register(commander: &Commander, me: Me, key: Option<String>, store_is_new: bool) -> Result<bool> {
    let (mut registration, mut step) = Registration::begin(me.osd, me.osd_fsid, key, store_is_new);
    loop {
        let (cmd, input) = match step {
            Step::Ask { cmd, input } => (cmd, input),
            Step::AskAfter { pause, cmd } => {
                tokio::time::sleep(pause).await;
                (cmd, Bytes::new())
            }
            Step::Known { lost } => return Ok(lost),
            Step::Failed { why } => bail!(why),
        };
        let (result, status) = commander.command(cmd, input).await?;
        step = registration.answered(result, &status);
    }
}
