//! Listening with room for many peers that come at once. Absent: what becomes of them.

use std::io;
use std::net::SocketAddr;
use tokio::net::{TcpListener, TcpSocket};

/// Connections that the kernel keeps until we take them. Whoever comes beyond it tries again after a second, and then after two: with a small number, a
/// crowd that comes during one busy turn of our thread holds up everybody else. The kernel takes its own bound (`net.core.somaxconn`) if that is less.
const BACKLOG: u32 = 4096;

/// Listens; port 0 takes a free one.
pub fn listen(addr: SocketAddr) -> io::Result<TcpListener> {
    let socket = if addr.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // A daemon that is started again takes the port of the one before it.
    socket.set_reuseaddr(true)?;
    socket.bind(addr)?;
    socket.listen(BACKLOG)
}
