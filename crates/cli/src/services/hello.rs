//! A look whether a port speaks TLS with a certificate that it can use: the first message of a handshake, and the kind of the answer.
//!
//! radosgw starts with a key that does not fit its certificate, and then refuses every client. Source of the form: RFC 5246, 7.4.1.2.
//! Absent: everything behind the first answer; whether a client trusts the certificate is that client's to say.

use anyhow::{Result, ensure};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);
/// Kinds of records: a handshake's message, as a server that goes on sends it first; an alert, of one that does not.
const HANDSHAKE: u8 = 22;
/// Suites with ephemeral keys, for certificates of either kind: AES-128-GCM and AES-256-GCM, ECDSA and RSA.
const SUITES: [u16; 4] = [0xc02b, 0xc02c, 0xc02f, 0xc030];
/// x25519, secp256r1, secp384r1, secp521r1.
const GROUPS: [u16; 4] = [0x001d, 0x0017, 0x0018, 0x0019];
/// ECDSA on three curves, Ed25519, RSA-PSS and RSA with three hashes.
const SIGNATURES: [u16; 10] = [0x0403, 0x0503, 0x0603, 0x0807, 0x0804, 0x0805, 0x0806, 0x0401, 0x0501, 0x0601];

/// A list of numbers behind its length in bytes.
fn list(numbers: &[u16]) -> Vec<u8> {
    let mut out = (2 * numbers.len() as u16).to_be_bytes().to_vec();
    numbers.iter().for_each(|n| out.extend(n.to_be_bytes()));
    out
}

fn extension(kind: u16, body: &[u8]) -> Vec<u8> {
    let mut out = kind.to_be_bytes().to_vec();
    out.extend((body.len() as u16).to_be_bytes());
    out.extend(body);
    out
}

/// The first record of a client of TLS 1.2.
fn client_hello() -> Vec<u8> {
    let mut body = vec![3, 3];
    // A random that nothing relies on: the handshake ends here.
    body.extend([0x48; 32]);
    body.push(0);
    body.extend(list(&SUITES));
    body.extend([1, 0]);
    let extensions = [extension(10, &list(&GROUPS)), extension(11, &[1, 0]), extension(13, &list(&SIGNATURES))].concat();
    body.extend((extensions.len() as u16).to_be_bytes());
    body.extend(extensions);
    let mut message = vec![1, 0];
    message.extend((body.len() as u16).to_be_bytes());
    message.extend(body);
    let mut record = vec![HANDSHAKE, 3, 1];
    record.extend((message.len() as u16).to_be_bytes());
    record.extend(message);
    record
}

/// An error if what listens there does not go on with a handshake.
pub fn check(addr: SocketAddr) -> Result<()> {
    let mut stream = TcpStream::connect_timeout(&addr, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(&client_hello())?;
    let mut kind = [0];
    let answered = stream.read(&mut kind).unwrap_or(0) == 1;
    ensure!(answered && kind[0] == HANDSHAKE, "HTTPS at {addr} refuses clients: give the --s3-key that belongs to --s3-cert");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn an_alert_is_no_handshake() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            for answer in [&[22, 3, 3, 0, 0][..], &[21, 3, 3, 0, 2, 2, 40], &[]] {
                let (mut stream, _) = listener.accept().unwrap();
                let mut head = [0; 5];
                stream.read_exact(&mut head).unwrap();
                let mut rest = vec![0; usize::from(u16::from_be_bytes([head[3], head[4]]))];
                stream.read_exact(&mut rest).unwrap();
                assert_eq!(
                    (head[0], rest[0], usize::from(rest[3]) + 4),
                    (22, 1, rest.len()),
                    "lengths of the record and the message agree"
                );
                stream.write_all(answer).unwrap();
            }
        });
        check(addr).unwrap();
        assert!(check(addr).unwrap_err().to_string().contains("--s3-key"));
        assert!(check(addr).is_err(), "one that hangs up does not go on");
        server.join().unwrap();
    }
}
