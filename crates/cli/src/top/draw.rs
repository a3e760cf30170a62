//! The state as a screen, and as plain lines.

use serde_json::Value;

const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

fn number(v: &Value) -> f64 {
    v.as_f64().unwrap_or(0.0)
}
fn text(v: &Value) -> &str {
    v.as_str().unwrap_or_default()
}
fn rows(v: &Value) -> &[Value] {
    v.as_array().map_or(&[], Vec::as_slice)
}

fn bytes(v: &Value) -> String {
    let (mut n, mut unit) = (number(v), 0);
    while n >= 1024.0 && unit < UNITS.len() - 1 {
        (n, unit) = (n / 1024.0, unit + 1);
    }
    if unit == 0 || n >= 100.0 { format!("{n:.0} {}", UNITS[unit]) } else { format!("{n:.1} {}", UNITS[unit]) }
}
fn count(v: &Value) -> String {
    match number(v) {
        n if n >= 1e6 => format!("{:.1}M", n / 1e6),
        n if n >= 1e4 => format!("{:.1}k", n / 1e3),
        n => format!("{n:.0}"),
    }
}
fn latency(v: &Value) -> String {
    match number(v) {
        us if us <= 0.0 => "-".into(),
        us if us < 1000.0 => format!("{us:.0} us"),
        us if us < 1e6 => format!("{:.1} ms", us / 1000.0),
        us => format!("{:.1} s", us / 1e6),
    }
}
fn share(part: &Value, whole: &Value) -> f64 {
    if number(whole) > 0.0 { number(part) / number(whole) } else { 0.0 }
}
/// A bar of `width` columns.
fn bar(part: f64, width: usize) -> String {
    let full = (part.clamp(0.0, 1.0) * width as f64).round() as usize;
    format!("{}{}", "█".repeat(full), "░".repeat(width - full))
}

/// A colour of the terminal's own.
fn colour(status: &str) -> &'static str {
    match status {
        "HEALTH_OK" => "\x1b[32m",
        "HEALTH_WARN" => "\x1b[33m",
        _ => "\x1b[31m",
    }
}
const PLAIN: &str = "\x1b[0m";
const BOLD: &str = "\x1b[1m";
const DIM: &str = "\x1b[2m";

/// A name in a column of so many characters; one that is cut says so.
fn fit(name: &str, width: usize) -> String {
    if name.chars().count() <= width {
        return format!("{name:<width$}");
    }
    name.chars().take(width - 1).chain(['…']).collect()
}

/// Where a client is, in a column of so many characters, without protocol and nonce.
/// Its port finds its process, so a long host is cut, and not that.
fn place(addr: &str, width: usize) -> String {
    let addr = addr.split('/').next().unwrap_or_default();
    let addr = addr.strip_prefix("v2:").or_else(|| addr.strip_prefix("v1:")).unwrap_or(addr);
    let Some((host, port)) = addr.rsplit_once(':').filter(|_| addr.chars().count() > width) else { return fit(addr, width) };
    match width.checked_sub(port.chars().count() + 1) {
        Some(left) if left > 1 => format!("{}:{port}", fit(host, left)),
        _ => fit(addr, width),
    }
}

/// A line as far as it is seen, without counting its colours; one that is cut says so.
fn cut(line: &str, columns: usize) -> String {
    let (mut out, mut wide, mut escape, mut last) = (String::new(), 0, false, 0);
    for c in line.chars() {
        match (escape, c) {
            (_, '\x1b') => escape = true,
            (true, 'm') => {
                escape = false;
                out.push(c);
                continue;
            }
            (true, _) => {}
            // Blanks say nothing that is missed.
            (false, ' ') if wide == columns => continue,
            (false, _) if wide == columns => {
                // The character before is what the mark takes the place of.
                let shown = out[last..].chars().next().map_or(0, char::len_utf8);
                if shown > 0 {
                    out.replace_range(last..last + shown, "…");
                }
                continue;
            }
            (false, _) => {
                wide += 1;
                last = out.len();
            }
        }
        out.push(c);
    }
    out
}

fn recovery(s: &Value) -> Option<String> {
    let r = &s["recovery"];
    let left = number(&r["degraded"]) + number(&r["misplaced"]);
    if left <= 0.0 {
        return None;
    }
    let done = (1.0 - left / number(&r["copies"]).max(left)).clamp(0.0, 1.0);
    let eta = r["eta_s"].as_u64().map_or("waiting".to_string(), |s| format!("about {} left", span(s)));
    Some(format!(
        "{} {:.1} %  {} missing, {} to move, {} objects/s, {eta}",
        bar(done, 24),
        done * 100.0,
        count(&r["degraded"]),
        count(&r["misplaced"]),
        count(&r["objects_s"])
    ))
}
fn span(s: u64) -> String {
    match s {
        0..90 => format!("{s} s"),
        90..5400 => format!("{} min", s / 60),
        _ => format!("{:.1} h", s as f64 / 3600.0),
    }
}

fn head(s: &Value) -> Vec<String> {
    let (health, c, io) = (text(&s["health"]["status"]), &s["capacity"], &s["io"]);
    let osds = rows(&s["osds"]).len();
    let states: Vec<String> =
        rows(&s["groups"]["states"]).iter().map(|g| format!("{} {}", count(&g["count"]), text(&g["state"]))).collect();
    let used = share(&c["used"], &c["total"]);
    let mut out = vec![
        format!(
            "{BOLD}{}{health}{PLAIN}   {} of {osds} OSDs up, {} in   {DIM}{}{PLAIN}",
            colour(health),
            count(&s["up"]),
            count(&s["in"]),
            text(&s["fsid"])
        ),
        format!(
            "capacity  {} {:.1} % of {}   {} objects, {}",
            bar(used, 24),
            used * 100.0,
            bytes(&c["total"]),
            count(&c["objects"]),
            bytes(&c["stored"])
        ),
        format!("groups    {}", if states.is_empty() { "none".into() } else { states.join(", ") }),
        format!(
            "clients   read {:>7} op/s {:>10}/s {:>8}   write {:>7} op/s {:>10}/s {:>8}",
            count(&io["read_ops"]),
            bytes(&io["read_bytes"]),
            latency(&io["read_us"]),
            count(&io["write_ops"]),
            bytes(&io["write_bytes"]),
            latency(&io["write_us"])
        ),
    ];
    out.extend(recovery(s).map(|line| format!("recovery  {line}")));
    for check in rows(&s["health"]["checks"]).iter().filter(|c| c["muted"] != true) {
        let mark = if check["error"] == true { colour("HEALTH_ERR") } else { colour("HEALTH_WARN") };
        out.push(format!("{mark}●{PLAIN} {}  {DIM}{}{PLAIN}", text(&check["text"]), text(&check["advice"])));
    }
    for d in rows(&s["slow"]) {
        out.push(format!(
            "slow      {}: {} requests, the oldest waits for {}",
            text(&d["daemon"]),
            count(&d["count"]),
            span(d["oldest_s"].as_u64().unwrap_or(0))
        ));
    }
    out
}

/// One line for each OSD; those that do most stand first.
fn osds(s: &Value) -> Vec<String> {
    let mut all: Vec<&Value> = rows(&s["osds"]).iter().collect();
    let work = |o: &Value| number(&o["read_ops"]) + number(&o["write_ops"]);
    // What is down is to be seen whatever the size.
    all.sort_by(|a, b| (a["up"] == true).cmp(&(b["up"] == true)).then(work(b).total_cmp(&work(a))));
    let row = |o: &&Value| {
        let state = match (o["up"] == true, o["in"] == true) {
            (true, true) => "up",
            (true, false) => "up, out",
            (false, true) => "down",
            (false, false) => "down, out",
        };
        let mark = if o["up"] == true { "" } else { colour("HEALTH_ERR") };
        format!(
            "{mark}{} {} {} {:<9}{PLAIN} {} {:>4.0} % {:>5} {:>8} {:>11}/s {:>8} {:>8} {:>11}/s {:>8}",
            fit(&format!("osd.{}", count(&o["id"])), 9),
            fit(text(&o["host"]), 16),
            fit(text(&o["class"]), 5),
            state,
            bar(share(&o["used"], &o["total"]), 8),
            share(&o["used"], &o["total"]) * 100.0,
            count(&o["pgs"]),
            count(&o["read_ops"]),
            bytes(&o["read_bytes"]),
            latency(&o["read_us"]),
            count(&o["write_ops"]),
            bytes(&o["write_bytes"]),
            latency(&o["write_us"])
        )
    };
    all.iter().map(row).collect()
}

fn pools(s: &Value) -> Vec<String> {
    let row = |p: &Value| {
        format!(
            "{} {} {:>4.0} % {:>11} {:>8} {:>6} {:>6} {:>8} {:>11}/s {:>8} {:>11}/s",
            fit(text(&p["name"]), 22),
            bar(number(&p["share"]), 8),
            number(&p["share"]) * 100.0,
            bytes(&p["stored"]),
            count(&p["objects"]),
            count(&p["size"]),
            count(&p["pg_num"]),
            count(&p["read_ops"]),
            bytes(&p["read_bytes"]),
            count(&p["write_ops"]),
            bytes(&p["write_bytes"])
        )
    };
    rows(&s["pools"]).iter().map(row).collect()
}

fn clients(s: &Value) -> Vec<String> {
    let row = |c: &Value| {
        format!(
            "{} {} {:>8} {:>11}/s {:>8} {:>8} {:>11}/s {:>8}",
            fit(text(&c["name"]), 16),
            place(text(&c["addr"]), 26),
            count(&c["read_ops"]),
            bytes(&c["read_bytes"]),
            latency(&c["read_us"]),
            count(&c["write_ops"]),
            bytes(&c["write_bytes"]),
            latency(&c["write_us"])
        )
    };
    rows(&s["clients"]).iter().map(row).collect()
}

/// A screen of so many rows and columns, from its upper left corner.
pub fn screen(s: &Value, height: usize, columns: usize) -> String {
    let mut lines = head(s);
    lines.push(String::new());
    lines.push(format!(
        "{DIM}{:<9} {:<16} {:<5} {:<9} {:<15} {:>5} {:>8} {:>13} {:>8} {:>8} {:>13} {:>8}{PLAIN}",
        "OSD", "HOST", "CLASS", "STATE", "USED", "PGS", "READ/s", "READ", "LATENCY", "WRITE/s", "WRITE", "LATENCY"
    ));
    let (osds, pools, clients) = (osds(s), pools(s), clients(s));
    // Pools and clients have a quarter each of what is left, or what OSDs leave.
    let left = height.saturating_sub(lines.len() + 6);
    let spare = left.saturating_sub(osds.len());
    let for_pools = pools.len().min((left / 4).max(spare.saturating_sub(clients.len())));
    let for_clients = clients.len().min((left / 4).max(spare.saturating_sub(for_pools)));
    let for_osds = left.saturating_sub(for_pools + for_clients);
    lines.extend(some(osds, for_osds, "OSDs"));
    lines.push(String::new());
    lines.push(format!(
        "{DIM}{:<22} {:<15} {:>11} {:>8} {:>6} {:>6} {:>8} {:>13} {:>8} {:>13}{PLAIN}",
        "POOL", "USED", "STORED", "OBJECTS", "COPIES", "PGS", "READ/s", "READ", "WRITE/s", "WRITE"
    ));
    lines.extend(some(pools, for_pools, "pools"));
    lines.push(String::new());
    lines.push(format!(
        "{DIM}{:<16} {:<26} {:>8} {:>13} {:>8} {:>8} {:>13} {:>8}{PLAIN}",
        "CLIENT", "ADDRESS", "READ/s", "READ", "LATENCY", "WRITE/s", "WRITE", "LATENCY"
    ));
    lines.extend(some(clients, for_clients, "clients"));
    lines.truncate(height);
    let body: Vec<String> = lines.iter().map(|l| cut(l, columns) + PLAIN + "\x1b[K").collect();
    format!("\x1b[H{}\x1b[J", body.join("\r\n"))
}

/// As many lines as there is room for; the last says how many are left out.
fn some(lines: Vec<String>, room: usize, what: &str) -> Vec<String> {
    if lines.len() <= room {
        return lines;
    }
    let shown = room.saturating_sub(1);
    let more = format!("{DIM}and {} more {what}{PLAIN}", lines.len() - shown);
    lines.into_iter().take(shown).chain((room > 0).then_some(more)).collect()
}

/// One line for programs and logs, with a heading in front of the first.
pub fn lines(s: &Value, first: bool) -> String {
    let c = &s["capacity"];
    let io = &s["io"];
    let heading = "time_s\thealth\tosds_up\tosds\tused_bytes\ttotal_bytes\tread_ops\tread_bytes\tread_us\twrite_ops\twrite_bytes\twrite_us\tdegraded\tmisplaced\n";
    let row: Vec<String> = [
        s["now_s"].to_string(),
        text(&s["health"]["status"]).into(),
        s["up"].to_string(),
        rows(&s["osds"]).len().to_string(),
        c["used"].to_string(),
        c["total"].to_string(),
    ]
    .into_iter()
    .chain(["read_ops", "read_bytes", "read_us", "write_ops", "write_bytes", "write_us"].map(|key| io[key].to_string()))
    .chain(["degraded", "misplaced"].map(|key| s["recovery"][key].to_string()))
    .collect();
    format!("{}{}\n", if first { heading } else { "" }, row.join("\t"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn state() -> Value {
        let osd = |id: u32, up: bool, ops: f64| json!({"id": id, "host": "h", "class": "ssd", "up": up, "in": true, "total": 100, "used": 25, "pgs": 8, "write_ops": ops, "write_us": 1500.0});
        json!({
            "fsid": "f", "now_s": 7, "up": 2, "in": 3,
            "health": {"status": "HEALTH_WARN", "checks": [{"code": "OSD_DOWN", "text": "1 osds down", "advice": "Start it.", "error": false, "muted": false}]},
            "capacity": {"total": 1024, "used": 512, "stored": 100, "objects": 12},
            "groups": {"states": [{"count": 8, "state": "active+clean"}]},
            "io": {"write_ops": 30.0, "write_us": 900.0},
            "recovery": {"degraded": 25, "misplaced": 0, "copies": 100, "objects_s": 5, "eta_s": 5},
            "osds": [osd(0, true, 10.0), osd(1, true, 20.0), osd(2, false, 0.0)],
            "pools": [{"name": "rbd", "share": 0.5, "size": 2, "pg_num": 8}],
            "clients": [{"name": "client.7", "addr": "v2:127.0.0.1:40001/5", "write_ops": 30.0}],
            "slow": [],
        })
    }

    /// What a person sees: without colours and moves.
    fn seen(text: &str) -> Vec<String> {
        let mut out = String::new();
        let mut escape = false;
        for c in text.chars() {
            match (escape, c) {
                (_, '\x1b') => escape = true,
                (true, c) if c.is_ascii_alphabetic() => escape = false,
                (true, _) => {}
                (false, c) => out.push(c),
            }
        }
        out.lines().map(|l| l.trim_end().to_string()).collect()
    }

    #[test]
    fn a_screen_fits_and_shows_what_is_down_first() {
        for (height, columns) in [(24, 80), (40, 160), (8, 30)] {
            let lines = seen(&screen(&state(), height, columns));
            assert!(lines.len() <= height && lines.iter().all(|l| l.chars().count() <= columns), "{height} x {columns}: {lines:#?}");
            assert!(lines[0].starts_with("HEALTH_WARN   2 of 3 OSDs"), "{lines:#?}");
        }
        let lines = seen(&screen(&state(), 40, 200)).join("\n");
        let at = |what: &str| lines.find(what).unwrap_or_else(|| panic!("{what} in\n{lines}"));
        assert!(at("osd.2") < at("osd.1") && at("osd.1") < at("osd.0"), "{lines}");
        assert!(
            lines.contains("75.0 %  25 missing, 0 to move, 5 objects/s, about 5 s left")
                && lines.contains("● 1 osds down  Start it.")
                && lines.contains("client.7         127.0.0.1:40001 "),
            "{lines}"
        );
    }

    #[test]
    fn long_names_keep_the_columns_and_what_is_cut_says_so() {
        let mut state = state();
        state["pools"][0]["name"] = json!("a pool whose name is longer than any column");
        state["osds"][0]["host"] = json!("storage-node-17.example.org");
        state["clients"][0]["addr"] = json!("v2:[2001:db8:1234:5678:9abc:def0:1234:5678]:40000/5");
        let lines = seen(&screen(&state, 40, 200));
        // A figure ends where its heading does.
        let ends = |line: &str, word: &str| line.find(word).map(|at| line[..at].chars().count() + word.chars().count());
        let column = |head: &str, row: &str, word: &str, figure: &str| {
            let find = |what: &str| lines.iter().find(|l| l.starts_with(what)).unwrap_or_else(|| panic!("{what}: {lines:#?}"));
            assert_eq!(ends(find(head), word), ends(find(row), figure), "{lines:#?}");
        };
        column("POOL", "a pool whose name is …", " PGS", " 8");
        column("OSD", "osd.0     storage-node-17…", " WRITE/s", " 10");
        column("CLIENT", "client.7         [2001:db8:1234:5678…:40000", " WRITE/s", " 30");
        // The terminal is narrow.
        let narrow = seen(&screen(&state, 40, 60));
        let osd = narrow.iter().find(|l| l.starts_with("osd.0")).expect("its line");
        assert!(osd.ends_with('…') && osd.chars().count() == 60, "{narrow:#?}");
    }

    #[test]
    fn a_bar_of_recovery_is_there_while_something_recovers() {
        let mut state = state();
        let bars = |state: &Value| seen(&screen(state, 40, 200)).iter().filter(|l| l.starts_with("recovery ")).count();
        assert_eq!(bars(&state), 1);
        state["recovery"]["degraded"] = json!(0);
        assert_eq!(bars(&state), 0);
        state["recovery"]["misplaced"] = json!(3);
        assert_eq!(bars(&state), 1);
    }

    #[test]
    fn lines_have_a_heading_once_and_as_many_columns() {
        let text = lines(&state(), true) + &lines(&state(), false);
        let rows: Vec<usize> = text.lines().map(|l| l.split('\t').count()).collect();
        assert_eq!(rows, [14, 14, 14]);
        assert!(text.lines().nth(1).is_some_and(|l| l.starts_with("7\tHEALTH_WARN\t2\t3\t512\t1024\t")), "{text}");
    }
}
