//! One request and its answer as bytes: HTTP/1.1 as far as looking needs it. Heads are read by `httparse`; a request has no body, and a connection ends
//! with its answer.

use std::fmt::Write;
use std::io;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// How long a request may take to come, and a write to go.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes of a request's head.
const HEAD_MAX: usize = 16 << 10;
/// Lines of it.
const LINES_MAX: usize = 64;

/// What a browser may do with what it gets: show it, with its own style and script, and ask its own address.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'";

/// A request, as far as it matters.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Asked {
    pub method: String,
    pub path: String,
    pub query: String,
    pub host: String,
    pub authorization: String,
    pub cookie: String,
    /// Of which page the request is, as a browser says.
    pub origin: String,
    pub fetch_site: String,
    pub fetch_dest: String,
}

/// An answer.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    pub kind: &'static str,
    pub body: Vec<u8>,
    /// Further lines of the head, each with its end.
    pub more: String,
}

impl Answer {
    pub fn text(status: u16, kind: &'static str, body: impl Into<String>) -> Self {
        Self { status, kind, body: body.into().into_bytes(), more: String::new() }
    }
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        303 => "See Other",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        431 => "Request Header Fields Too Large",
        _ => "Service Unavailable",
    }
}

fn late(_: tokio::time::error::Elapsed) -> io::Error {
    io::ErrorKind::TimedOut.into()
}

/// The head of a request; `None` while it is not whole, and a status if it can't be read.
fn parse(bytes: &[u8]) -> Option<Result<Asked, u16>> {
    let mut headers = [httparse::EMPTY_HEADER; LINES_MAX];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(bytes) {
        Ok(httparse::Status::Partial) if bytes.len() >= HEAD_MAX => return Some(Err(431)),
        Ok(httparse::Status::Partial) => return None,
        Ok(httparse::Status::Complete(_)) => {}
        Err(httparse::Error::TooManyHeaders) => return Some(Err(431)),
        Err(_) => return Some(Err(400)),
    }
    let (path, query) = request.path.unwrap_or_default().split_once('?').unwrap_or((request.path.unwrap_or_default(), ""));
    let mut asked = Asked { method: request.method.unwrap_or_default().into(), path: path.into(), query: query.into(), ..Asked::default() };
    for header in request.headers.iter() {
        let place = match header.name.to_ascii_lowercase().as_str() {
            "host" => &mut asked.host,
            "authorization" => &mut asked.authorization,
            "cookie" => &mut asked.cookie,
            "origin" => &mut asked.origin,
            "sec-fetch-site" => &mut asked.fetch_site,
            "sec-fetch-dest" => &mut asked.fetch_dest,
            _ => continue,
        };
        *place = String::from_utf8_lossy(header.value).trim().into();
    }
    Some(Ok(asked))
}

/// Reads a request's head; the inner error is a status.
pub async fn read(stream: &mut TcpStream) -> io::Result<Result<Asked, u16>> {
    let mut bytes = Vec::new();
    let mut piece = [0; 2048];
    let whole = async {
        loop {
            let n = stream.read(&mut piece).await?;
            if n == 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
            }
            bytes.extend_from_slice(&piece[..n]);
            if let Some(asked) = parse(&bytes) {
                return Ok(asked);
            }
        }
    };
    timeout(PATIENCE, whole).await.map_err(late)?
}

/// The lines that every answer's head has.
fn head(status: u16, kind: &str) -> String {
    format!(
        "HTTP/1.1 {status} {}\r\nContent-Type: {kind}\r\nCache-Control: no-store\r\nConnection: close\r\nContent-Security-Policy: {POLICY}\r\n\
         X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n",
        reason(status)
    )
}

/// Writes all of it; a visitor that takes nothing for long is left.
pub async fn all(to: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> io::Result<()> {
    timeout(PATIENCE, to.write_all(bytes)).await.map_err(late)?
}

/// Sends an answer; of one to `HEAD` the head alone.
pub async fn send(stream: &mut TcpStream, answer: &Answer, head_only: bool) -> io::Result<()> {
    let mut text = head(answer.status, answer.kind);
    let _ = write!(text, "{}Content-Length: {}\r\n\r\n", answer.more, answer.body.len());
    let mut bytes = text.into_bytes();
    if !head_only {
        bytes.extend_from_slice(&answer.body);
    }
    all(stream, &bytes).await?;
    stream.shutdown().await
}

/// The head of an answer that goes on.
pub async fn begin_events(to: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
    all(to, (head(200, "text/event-stream") + "\r\n").as_bytes()).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_read_and_bad_ones_refused() {
        let text = "GET /metrics?token=x HTTP/1.1\r\nHost: 127.0.0.1:9283\r\nAuthorization: Bearer t\r\nCookie: a=b\r\n\r\n";
        for cut in 0..text.len() {
            assert_eq!(parse(&text.as_bytes()[..cut]), None, "{cut}");
        }
        let asked = parse(text.as_bytes()).unwrap().unwrap();
        assert_eq!((asked.method.as_str(), asked.path.as_str(), asked.query.as_str()), ("GET", "/metrics", "token=x"));
        assert_eq!((asked.host.as_str(), asked.authorization.as_str(), asked.cookie.as_str()), ("127.0.0.1:9283", "Bearer t", "a=b"));
        assert_eq!(parse(b"\x16\x03\x01\x02\x00"), Some(Err(400)));
        assert_eq!(parse(format!("GET /{} HTTP/1.1\r\n", "a".repeat(HEAD_MAX)).as_bytes()), Some(Err(431)));
        assert_eq!(parse(format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(LINES_MAX + 1)).as_bytes()), Some(Err(431)));
    }
}
