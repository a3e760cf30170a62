//! Asks a monitor for its map: `monmap 127.0.0.1:3300 [client.admin's key [crc|secure [an OSD's v2 address]]]`.
//! Without a key it goes without authentication. With an OSD's address it then dials that with what the monitor handed out.

use cephx::{CryptoKey, Identity, client::ClientAuth};
use messages::RawMessage;
use msgr::{ConMode, Local, Policy};
use net::auth_cephx::Dialer;
use net::{Config, Conn, Dispatcher, Messenger};
use std::cell::RefCell;
use std::rc::Rc;
use tokio::sync::Notify;
use types::{AddrType, EntityAddr, EntityAddrVec, EntityKind, EntityText};

struct Ask {
    done: Notify,
}
impl Dispatcher for Ask {
    fn on_connect(&self, conn: &Conn) {
        println!("session with {conn:?}: {:?}", conn.peer());
        if conn.peer().kind == EntityKind::MON {
            return conn.send(RawMessage { kind: 5, version: 1, compat: 1, priority: 127, ..Default::default() });
        }
        self.done.notify_one();
    }
    fn on_message(&self, conn: &Conn, message: RawMessage) {
        println!("{conn:?}: type {} version {} front {} bytes", message.kind, message.version, message.front.len());
        if message.kind == 4 {
            self.done.notify_one();
        }
    }
    fn on_reset(&self, conn: &Conn) {
        println!("{conn:?}: reset");
    }
    fn on_dial_failed(&self, conn: &Conn, reason: &net::DialError, attempts: u32) {
        println!("{conn:?}: dial {attempts} failed: {reason}");
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let target = std::env::args().nth(1).expect("an address");
    let target = EntityAddr::parse(&target, AddrType::MSGR2).expect("an address").with_kind(AddrType::MSGR2);
    let blank = EntityAddr { kind: AddrType::ANY, nonce: std::process::id(), ..Default::default() };
    let name = EntityText::new(EntityKind::CLIENT, "admin");
    let identity = match std::env::args().nth(2) {
        None => Identity::none(name),
        Some(key) => Identity::Cephx(ClientAuth::new(
            name,
            CryptoKey::from_base64(&key).expect("a key"),
            &[EntityKind::MON, EntityKind::OSD, EntityKind::MGR, EntityKind::AUTH],
        )),
    };
    let mut auth = Dialer::new(Rc::new(RefCell::new(identity)));
    let mode = if std::env::args().nth(3).as_deref() == Some("crc") { ConMode::CRC } else { ConMode::SECURE };
    auth.modes = net::modes::Modes::all(&[mode]).shared();
    let local = Local::new(EntityKind::CLIENT, -1, EntityAddrVec::one(blank), Rc::new(auth), std::process::id().into());
    tokio::task::LocalSet::new()
        .run_until(async {
            let messenger = Messenger::new(Rc::new(local), Config::default());
            let ask = Rc::new(Ask { done: Notify::new() });
            messenger.set_dispatcher(ask.clone());
            messenger.connect(EntityKind::MON, EntityAddrVec::one(target), Policy::lossy_client());
            ask.done.notified().await;
            if let Some(osd) = std::env::args().nth(4) {
                let osd = EntityAddr::parse(&osd, AddrType::MSGR2).expect("an address");
                messenger.connect(EntityKind::OSD, EntityAddrVec::one(osd), Policy::lossy_client());
                ask.done.notified().await;
            }
        })
        .await;
}
