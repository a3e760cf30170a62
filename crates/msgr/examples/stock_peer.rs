//! Poses as an OSD towards a stock OSD (without authentication): opens a lossless session, cuts the socket, resumes it.
//! `stock_peer v2:127.0.0.1:6802/123`, an address of the OSD's cluster messenger.

use bytes::BytesMut;
use messages::RawMessage;
use msgr::{AuthNoneClient, Connection, Fault, Local, Policy, State, Up};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::rc::Rc;
use std::time::Duration;
use types::{AddrType, EntityAddr, EntityAddrVec, EntityKind, EntityText};

/// Runs the transport until `done` or the time is over.
fn pump(c: &mut Connection, socket: &mut TcpStream, buf: &mut BytesMut, done: impl Fn(&Connection) -> bool) {
    for _ in 0..200 {
        loop {
            match c.next(buf) {
                Ok(None) => break,
                Ok(Some(Up::Message(m))) => println!("  a message of type {}", m.kind),
                Ok(Some(up)) => println!("  {up:?}"),
                Err(error) => return println!("  {error}"),
            }
        }
        c.ack(true);
        let out = c.out().take_flat();
        socket.write_all(&out).expect("the socket takes it");
        if done(c) {
            return;
        }
        let mut chunk = [0; 4096];
        match socket.read(&mut chunk) {
            Ok(0) => return println!("  closed by the peer"),
            Ok(n) => buf.extend_from_slice(&chunk[..n]),
            Err(_) => continue,
        }
    }
    println!("  time is over");
}

fn main() {
    let target = EntityAddr::parse(&std::env::args().nth(1).expect("an address"), AddrType::MSGR2).expect("an address");
    let own = EntityAddr::msgr2("127.0.0.1:1".parse().expect("an address"), std::process::id());
    let auth = AuthNoneClient { name: EntityText::new(EntityKind::OSD, "77"), global_id: Default::default() };
    let local = Local::new(EntityKind::OSD, 77, EntityAddrVec::one(own), Rc::new(auth), std::process::id().into());
    let mut c = Connection::dial(Rc::new(local), Policy::lossless_peer(), EntityKind::OSD, EntityAddrVec::one(target));
    for round in 0..4 {
        println!("socket {round}");
        let mut socket = TcpStream::connect(target.socket().expect("an address")).expect("the OSD listens");
        socket.set_read_timeout(Some(Duration::from_millis(20))).expect("a timeout");
        let mut buf = BytesMut::new();
        c.start();
        pump(&mut c, &mut socket, &mut buf, |c| c.state() == State::Ready && !c.has_news());
        println!("  {c:?}");
        for tid in 0..5 {
            c.send(RawMessage { kind: 2, version: 1, compat: 1, priority: 127, tid, ..Default::default() });
        }
        if round % 2 == 0 {
            pump(&mut c, &mut socket, &mut buf, |c| !c.has_queued());
        }
        println!("  all acknowledged: {}", !c.has_queued());
        drop(socket);
        match c.fault() {
            Fault::Closed => return println!("closed"),
            Fault::Standby => c.send(RawMessage { kind: 2, version: 1, compat: 1, priority: 127, ..Default::default() }),
            Fault::Redial(_) => {}
        }
        c.wake();
    }
}
