//! Accepts clients without authentication and prints what they say: `listen 127.0.0.1:3300`. It poses as a monitor that never answers.

use messages::RawMessage;
use msgr::{AuthNone, AuthNoneClient, Local};
use net::{Config, Conn, Dispatcher, Messenger};
use std::cell::Cell;
use std::rc::Rc;
use types::{EntityKind, EntityText};

struct Print;
impl Dispatcher for Print {
    fn on_accept(&self, conn: &Conn) {
        println!("accepted {conn:?}: {:?}", conn.peer());
    }
    fn on_message(&self, conn: &Conn, message: RawMessage) {
        println!("{conn:?}: type {} version {} front {} bytes", message.kind, message.version, message.front.len());
    }
    fn on_reset(&self, conn: &Conn) {
        println!("{conn:?}: reset");
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let addr = std::env::args().nth(1).expect("an address").parse().expect("an address");
    let name = EntityText::new(EntityKind::MON, "a");
    let clients = Rc::new(AuthNoneClient { name, global_id: Default::default() });
    let mut local = Local::new(EntityKind::MON, 0, Default::default(), clients, std::process::id().into());
    let next = Cell::new(4100);
    local.auth_server = Some(Rc::new(AuthNone { next_global_id: Some(Rc::new(move || next.replace(next.get() + 1))) }));
    tokio::task::LocalSet::new()
        .run_until(async {
            let messenger = Messenger::new(Rc::new(local), Config::default());
            messenger.set_dispatcher(Rc::new(Print));
            println!("listening at {}", messenger.bind_as(addr, 0).await.expect("the address is free"));
            std::future::pending::<()>().await;
        })
        .await;
}
