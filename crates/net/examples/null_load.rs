//! What a request costs both sides of the wire: a client and the null responder, a thread each, over loopback.
//! `null_load [read|write] [depth] [bytes] [seconds] [spin_us]`; prints CPU per op of each thread, user and system.

use bytes::Bytes;
use messages::osd_client::{InOp, MOSDOp};
use messages::{Message, RawMessage};
use msgr::{AuthNone, AuthNoneClient, Local, Policy};
use net::null::NullDispatcher;
use net::{Config, Conn, Dispatcher, Messenger};
use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use types::osd_op::{Extent, OpCode, OsdOp, osd_flag};
use types::{AddrType, EntityAddr, EntityAddrVec, EntityKind, EntityText, HObject};

fn local(kind: EntityKind, addrs: EntityAddrVec) -> Local {
    let auth = AuthNoneClient { name: EntityText::new(kind, "x"), global_id: Rc::new(Cell::new(5)) };
    let mut local = Local::new(kind, 0, addrs, Rc::new(auth), 1);
    local.auth_server = Some(Rc::new(AuthNone::default()));
    local
}

fn run<F: Future>(f: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    tokio::task::LocalSet::new().block_on(&runtime, f)
}

/// Ticks of 10 ms that this thread spent: user, system.
fn cpu() -> (f64, f64) {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").expect("proc");
    let fields: Vec<&str> = stat.rsplit(')').next().expect("a name").split_whitespace().collect();
    let tick = |i: usize| fields[i].parse::<f64>().expect("a number") * 1e4;
    (tick(11), tick(12))
}

struct Load {
    write: bool,
    bytes: usize,
    depth: usize,
    data: Bytes,
    done: Cell<u64>,
    stop: Cell<bool>,
    ended: Notify,
}
impl Load {
    fn send(&self, conn: &Conn, tid: u64) {
        let code = if self.write { OpCode::WRITE } else { OpCode::READ };
        let extent = Extent { offset: 0, length: self.bytes as u64, ..Default::default() };
        let indata = if self.write { self.data.clone() } else { Bytes::new() };
        let mut op = MOSDOp {
            tid,
            map_epoch: 10,
            flags: osd_flag::ONDISK,
            hobj: HObject { oid: "object".into(), ..HObject::min() },
            ..Default::default()
        };
        op.ops.push(InOp::new(OsdOp::with_extent(code, extent), indata));
        conn.send(op.encode(conn.features()));
    }
}
impl Dispatcher for Load {
    fn on_connect(&self, conn: &Conn) {
        (0..self.depth as u64).for_each(|tid| self.send(conn, tid));
    }
    fn on_message(&self, conn: &Conn, message: RawMessage) {
        self.done.set(self.done.get() + 1);
        assert!(self.write || message.data_len() == self.bytes);
        if self.stop.get() { self.ended.notify_one() } else { self.send(conn, message.tid) }
    }
}

fn main() {
    let arg = |n: usize, default: &str| std::env::args().nth(n).unwrap_or_else(|| default.into());
    let (write, depth, bytes, seconds) = (arg(1, "write") == "write", arg(2, "256"), arg(3, "4096"), arg(4, "3"));
    let (depth, bytes, seconds): (usize, usize, u64) = (depth.parse().unwrap(), bytes.parse().unwrap(), seconds.parse().unwrap());
    let config = Config { spin_us: arg(5, "0").parse().unwrap(), ..Config::default() };
    let client_config = config.clone();
    let (tx, rx) = std::sync::mpsc::channel();
    let (stop_tx, stop_rx) = tokio::sync::oneshot::channel::<()>();
    let server = std::thread::spawn(move || {
        run(async move {
            let messenger = Messenger::new(Rc::new(local(EntityKind::OSD, Default::default())), config);
            messenger.set_dispatcher(Rc::new(NullDispatcher::default()));
            tx.send(messenger.bind_as("127.0.0.1:0".parse().unwrap(), 7).await.unwrap()).unwrap();
            let _ = stop_rx.await;
        });
        cpu()
    });
    let target = rx.recv().unwrap();
    let load = Rc::new(Load {
        write,
        bytes,
        depth,
        data: vec![7; bytes].into(),
        done: Cell::new(0),
        stop: Cell::new(false),
        ended: Notify::new(),
    });
    let start = Instant::now();
    run(async {
        let blank = EntityAddr { kind: AddrType::ANY, nonce: 77, ..Default::default() };
        let messenger = Messenger::new(Rc::new(local(EntityKind::CLIENT, EntityAddrVec::one(blank))), client_config);
        messenger.set_dispatcher(load.clone());
        messenger.connect(EntityKind::OSD, EntityAddrVec::one(target), Policy::lossy_client());
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        load.stop.set(true);
        load.ended.notified().await;
    });
    let (client, took) = (cpu(), start.elapsed());
    let _ = stop_tx.send(());
    let server = server.join().unwrap();
    let ops = load.done.get() as f64;
    println!(
        "{ops:.0} ops, {:.0}/s; us/op: server user {:.2} sys {:.2}, client user {:.2} sys {:.2}",
        ops / took.as_secs_f64(),
        server.0 / ops,
        server.1 / ops,
        client.0 / ops,
        client.1 / ops
    );
}
