//! Asks a monitor for its map, without authentication: `monmap 127.0.0.1:3300`.

use messages::RawMessage;
use msgr::{AuthNoneClient, Local, Policy};
use net::{Config, Conn, Dispatcher, Messenger};
use std::rc::Rc;
use tokio::sync::Notify;
use types::{AddrType, EntityAddr, EntityAddrVec, EntityKind, EntityText};

struct Ask {
    done: Notify,
}
impl Dispatcher for Ask {
    fn on_connect(&self, conn: &Conn) {
        println!("session with {conn:?}: {:?}", conn.peer());
        conn.send(RawMessage { kind: 5, version: 1, compat: 1, priority: 127, ..Default::default() });
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
    fn on_dial_failed(&self, conn: &Conn, reason: &str, attempts: u32) {
        println!("{conn:?}: dial {attempts} failed: {reason}");
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let target = std::env::args().nth(1).expect("an address");
    let target = EntityAddr::parse(&target, AddrType::MSGR2).expect("an address").with_kind(AddrType::MSGR2);
    let blank = EntityAddr { kind: AddrType::ANY, nonce: std::process::id(), ..Default::default() };
    let auth = AuthNoneClient { name: EntityText::new(EntityKind::CLIENT, "admin"), global_id: Default::default() };
    let local = Local::new(EntityKind::CLIENT, -1, EntityAddrVec::one(blank), Rc::new(auth), std::process::id().into());
    tokio::task::LocalSet::new()
        .run_until(async {
            let messenger = Messenger::new(Rc::new(local), Config::default());
            let ask = Rc::new(Ask { done: Notify::new() });
            messenger.set_dispatcher(ask.clone());
            messenger.connect(EntityKind::MON, EntityAddrVec::one(target), Policy::lossy_client());
            ask.done.notified().await;
        })
        .await;
}
