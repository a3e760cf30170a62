//! Which requests are answered.
//!
//! With a token: those that show it, in a header (`Authorization: Bearer TOKEN`), in the address once (`?token=TOKEN`, which is then kept in a cookie
//! and leaves the address), or in that cookie. Without one the address is the machine's own: then the request must name it by number or as
//! `localhost`, so that a page from elsewhere can't have a browser read it under a name of its own.
//!
//! Whatever else is shown, what a browser asks for a page of another address is refused: it could not read the answer, but it could hold all places. A
//! link to the page is followed.

use super::wire::Asked;
use std::net::IpAddr;

const COOKIE: &str = "humboldt_token";

pub enum Verdict {
    Pass,
    Refuse(u16, &'static str),
    /// Set this cookie, and come again there.
    Remember(String, String),
}

pub struct Guard {
    token: Option<String>,
}

/// Equal or not, in a time that does not tell where they differ.
fn same(a: &str, b: &str) -> bool {
    a.len() == b.len() && a.bytes().zip(b.bytes()).fold(0, |acc, (a, b)| acc | (a ^ b)) == 0
}

/// The host of `host:port`.
fn host_of(text: &str) -> &str {
    match text.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => text.rsplit_once(':').map_or(text, |(host, _)| host),
    }
}

fn is_own(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok()
}

/// True if a browser asks for a page of another address.
fn is_of_another_page(asked: &Asked) -> bool {
    let is_followed = asked.fetch_dest == "document" && asked.method == "GET";
    let is_foreign = !matches!(asked.fetch_site.as_str(), "" | "same-origin" | "none");
    let origin = asked.origin.split_once("://").map_or(asked.origin.as_str(), |(_, host)| host);
    (is_foreign && !is_followed) || (!origin.is_empty() && origin != asked.host)
}

impl Guard {
    pub fn new(token: Option<String>) -> Self {
        Self { token }
    }

    pub fn look(&self, asked: &Asked) -> Verdict {
        if is_of_another_page(asked) {
            return Verdict::Refuse(403, "this address is for its own page\n");
        }
        self.judge(&asked.path, &asked.query, &asked.host, &asked.authorization, &asked.cookie)
    }

    fn judge(&self, path: &str, query: &str, host: &str, authorization: &str, cookies: &str) -> Verdict {
        let Some(token) = &self.token else {
            if is_own(host_of(host)) {
                return Verdict::Pass;
            }
            return Verdict::Refuse(403, "ask for this address by its number or as localhost\n");
        };
        let shown = |text: &str| same(text, token);
        let of_cookie = cookies.split(';').filter_map(|c| c.trim().split_once('=')).any(|(name, value)| name == COOKIE && shown(value));
        if authorization.strip_prefix("Bearer ").is_some_and(shown) || of_cookie {
            return Verdict::Pass;
        }
        if query.split('&').filter_map(|pair| pair.strip_prefix("token=")).any(shown) {
            // Programs that fetch metrics keep no cookies.
            if path == "/metrics" {
                return Verdict::Pass;
            }
            // A place of this address, whatever the path looks like.
            let place = if path.starts_with('/') && !path.starts_with("//") { path } else { "/" };
            return Verdict::Remember(format!("{COOKIE}={token}; HttpOnly; SameSite=Strict; Path=/"), place.into());
        }
        Verdict::Refuse(401, "show the token: http://ADDRESS/?token=TOKEN, or the header Authorization: Bearer TOKEN\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(guard: &Guard, path: &str, query: &str, host: &str, authorization: &str, cookies: &str) -> String {
        match guard.judge(path, query, host, authorization, cookies) {
            Verdict::Pass => "pass".into(),
            Verdict::Refuse(status, _) => status.to_string(),
            Verdict::Remember(cookie, place) => format!("{place} {}", cookie.split(';').next().unwrap()),
        }
    }

    #[test]
    fn without_a_token_the_address_is_named_as_what_it_is() {
        let guard = Guard::new(None);
        for (host, wanted) in [
            ("127.0.0.1:9283", "pass"),
            ("localhost:9283", "pass"),
            ("[::1]:9283", "pass"),
            ("localhost", "pass"),
            ("evil.example:9283", "403"),
            ("", "403"),
        ] {
            assert_eq!(verdict(&guard, "/", "", host, "", ""), wanted, "{host}");
        }
    }

    #[test]
    fn what_another_page_asks_for_is_refused() {
        let guard = Guard::new(None);
        for (site, dest, origin, wanted) in [
            ("", "", "", true),
            ("same-origin", "empty", "http://127.0.0.1:9283", true),
            ("none", "document", "", true),
            ("cross-site", "document", "", true),
            ("cross-site", "empty", "http://evil.example", false),
            ("cross-site", "image", "", false),
            ("cross-site", "iframe", "", false),
            ("same-site", "empty", "http://127.0.0.1:8000", false),
            ("", "", "http://evil.example", false),
            ("", "", "null", false),
        ] {
            let text = |t: &str| t.to_string();
            let (host, method, path) = (text("127.0.0.1:9283"), text("GET"), text("/events"));
            let (origin, fetch_site, fetch_dest) = (text(origin), text(site), text(dest));
            let asked = Asked { method, path, host, origin, fetch_site, fetch_dest, ..Asked::default() };
            assert_eq!(matches!(guard.look(&asked), Verdict::Pass), wanted, "{asked:?}");
        }
    }

    #[test]
    fn with_a_token_it_must_be_shown() {
        let guard = Guard::new(Some("correct-horse".into()));
        let host = "cluster.example:9283";
        for (path, query, authorization, cookies, wanted) in [
            ("/", "", "", "", "401"),
            ("/", "token=wrong", "", "", "401"),
            ("/", "token=correct-hors", "", "", "401"),
            ("/", "token=correct-horse", "", "", "/ humboldt_token=correct-horse"),
            ("//evil.example", "token=correct-horse", "", "", "/ humboldt_token=correct-horse"),
            ("/metrics", "token=correct-horse", "", "", "pass"),
            ("/metrics", "", "Bearer correct-horse", "", "pass"),
            ("/metrics", "", "Basic correct-horse", "", "401"),
            ("/state", "", "", "a=b; humboldt_token=correct-horse", "pass"),
            ("/state", "", "", "humboldt_token=wrong", "401"),
        ] {
            assert_eq!(verdict(&guard, path, query, host, authorization, cookies), wanted, "{path}?{query} {authorization} {cookies}");
        }
    }
}
