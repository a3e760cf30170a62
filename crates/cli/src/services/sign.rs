//! A request to an S3 server with an empty body, signed by Amazon's scheme `AWS4-HMAC-SHA256`.
//!
//! Source: "Authenticating Requests: Using the Authorization Header (AWS Signature Version 4)" of Amazon S3's API reference.
//! Absent: HTTPS, bodies, and names that need an escape.

use super::credentials::Credentials;
use anyhow::{Context, Result, ensure};
use aws_lc_rs::{digest, hmac};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;
use types::UTime;

/// How long a server that serves may take to answer.
const PATIENCE: Duration = Duration::from_secs(120);
/// Of an answer no more is read.
const ANSWER_MAX: u64 = 64 << 10;
/// radosgw takes any.
const REGION: &str = "us-east-1";

/// A request: its path begins with `/`, its query is in canonical form.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    pub method: &'a str,
    pub host: &'a str,
    pub path: &'a str,
    pub query: &'a str,
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn mac(key: &[u8], text: &str) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text.as_bytes()).as_ref().to_vec()
}

fn sha256(text: &str) -> String {
    hex(digest::digest(&digest::SHA256, text.as_bytes()).as_ref())
}

/// The headers that sign a request, each with its line end.
fn headers(request: &Request<'_>, keys: &Credentials, now: UTime) -> String {
    let (at, nothing) = (now.basic_iso(), sha256(""));
    let day = &at[..8];
    let signed = "host;x-amz-content-sha256;x-amz-date";
    let canonical = format!(
        "{}\n{}\n{}\nhost:{}\nx-amz-content-sha256:{nothing}\nx-amz-date:{at}\n\n{signed}\n{nothing}",
        request.method, request.path, request.query, request.host
    );
    let scope = format!("{day}/{REGION}/s3/aws4_request");
    let to_sign = format!("AWS4-HMAC-SHA256\n{at}\n{scope}\n{}", sha256(&canonical));
    let key = [REGION, "s3", "aws4_request"].iter().fold(mac(format!("AWS4{}", keys.secret).as_bytes(), day), |key, word| mac(&key, word));
    let signature = hex(&mac(&key, &to_sign));
    format!(
        "Host: {}\r\nx-amz-content-sha256: {nothing}\r\nx-amz-date: {at}\r\n\
         Authorization: AWS4-HMAC-SHA256 Credential={}/{scope},SignedHeaders={signed},Signature={signature}\r\n",
        request.host, keys.access_key
    )
}

/// Sends bytes to a server and reads its answer: the number in its first line, and all of it.
fn exchange(addr: SocketAddr, bytes: &str) -> Result<(u16, String)> {
    let mut stream = TcpStream::connect_timeout(&addr, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(bytes.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(ANSWER_MAX).read_to_end(&mut answer)?;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let status = answer.strip_prefix("HTTP/1.").and_then(|rest| rest.split(' ').nth(1)).and_then(|code| code.parse().ok());
    Ok((status.context("the answer is none of HTTP")?, answer))
}

/// True if a server of HTTP answers there, with whatever.
pub fn answers(addr: SocketAddr) -> bool {
    exchange(addr, &format!("HEAD / HTTP/1.1\r\nHost: {addr}\r\nConnection: close\r\n\r\n")).is_ok()
}

/// Makes a bucket; one that this user has is left as it is.
pub fn make_bucket(addr: SocketAddr, name: &str, keys: &Credentials) -> Result<()> {
    let (host, path) = (addr.to_string(), format!("/{name}"));
    let signed = headers(&Request { method: "PUT", host: &host, path: &path, query: "" }, keys, net::auth_cephx::now());
    let (status, answer) = exchange(addr, &format!("PUT {path} HTTP/1.1\r\n{signed}Content-Length: 0\r\nConnection: close\r\n\r\n"))?;
    let code = answer.split_once("<Code>").and_then(|(_, rest)| rest.split_once("</Code>")).map_or("", |(code, _)| code);
    ensure!(
        status == 200 || code == "BucketAlreadyOwnedByYou",
        "S3 answers {status} {code}{}",
        if code == "BucketAlreadyExists" { ": another user has a bucket of this name, take another one" } else { "" }
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_are_those_of_amazons_examples() {
        let keys = Credentials { access_key: "AKIAIOSFODNN7EXAMPLE".into(), secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".into() };
        let request = |query| Request { method: "GET", host: "examplebucket.s3.amazonaws.com", path: "/", query };
        // 2013-05-24 00:00:00. "GET Bucket Lifecycle" and "GET Bucket (List Objects)" of the reference.
        for (query, signature) in [
            ("lifecycle=", "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"),
            ("max-keys=2&prefix=J", "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"),
        ] {
            let headers = headers(&request(query), &keys, UTime { sec: 1_369_353_600, nsec: 0 });
            assert!(headers.contains("x-amz-date: 20130524T000000Z\r\n"), "{headers}");
            assert!(headers.ends_with(&format!("Signature={signature}\r\n")), "{headers}");
        }
    }
}
