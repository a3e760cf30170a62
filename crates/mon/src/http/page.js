// The page: draws the state of the cluster and keeps it new by server-sent events. No library, nothing from elsewhere.
"use strict";
const $ = id => document.getElementById(id);
const set = (node, text) => { if (node.textContent !== text) node.textContent = text; };

// Makes a node: make("li", {class: "x"}, "text", other).
function make(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const key in attributes) if (attributes[key] !== undefined) node.setAttribute(key, attributes[key]);
  node.append(...children);
  return node;
}

// Replaces a list only when it says something else, so that focus and an open detail stay.
function fill(node, key, build) {
  const now = JSON.stringify(key);
  if (node.dataset.key === now) return;
  node.dataset.key = now;
  node.replaceChildren(...build());
}

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
function bytes(n) {
  let unit = 0;
  while (n >= 1024 && unit < UNITS.length - 1) { n /= 1024; unit++; }
  return (unit && n < 100 ? n.toFixed(1).replace(/\.0$/, "") : Math.round(n)) + " " + UNITS[unit];
}
function count(n) {
  if (n >= 1e9) return (n / 1e9).toFixed(1) + " G";
  if (n >= 1e6) return (n / 1e6).toFixed(1) + " M";
  if (n >= 1e4) return (n / 1e3).toFixed(1) + " k";
  return n >= 100 || Number.isInteger(n) ? String(Math.round(n)) : n.toFixed(1);
}
const rate = n => bytes(n) + "/s";
const latency = us => us <= 0 ? "–" : us < 1000 ? Math.round(us) + " µs" : us < 1e6 ? (us / 1000).toFixed(us < 1e4 ? 1 : 0) + " ms" : (us / 1e6).toFixed(1) + " s";
const share = (a, b) => b > 0 ? a / b : 0;
const percent = part => (100 * part).toFixed(part > 0 && part < 0.1 ? 1 : 0) + " %";
function span(s) {
  if (s < 90) return Math.max(1, Math.round(s)) + " s";
  if (s < 5400) return Math.round(s / 60) + " min";
  return s < 172800 ? (s / 3600).toFixed(1) + " h" : Math.round(s / 86400) + " days";
}
const plural = (n, one, many) => n + " " + (n === 1 ? one : many);
const clock = s => new Date(s * 1000).toTimeString().slice(0, 8);

function meter(node, part, kind) {
  node.firstElementChild.style.width = Math.min(100, 100 * part) + "%";
  node.setAttribute("aria-valuenow", Math.round(100 * part));
  node.className = "meter " + (kind ?? (part >= 0.95 ? "full" : part >= 0.85 ? "near" : ""));
}
function bar(part, what) {
  const node = make("div", { role: "meter", "aria-label": what, "aria-valuemin": 0, "aria-valuemax": 100 }, make("i"));
  meter(node, part);
  return node;
}

const HEALTH = {
  HEALTH_OK: ["ok", "All is well"],
  HEALTH_WARN: ["warn", "Needs attention"],
  HEALTH_ERR: ["err", "Something is broken"],
};

function drawHealth(s) {
  const [kind, title] = HEALTH[s.health.status] ?? ["warn", s.health.status];
  const loud = s.health.checks.filter(c => !c.muted);
  $("health").className = "health " + kind;
  set($("health-title"), title);
  const down = s.osds.length - s.up;
  const some = letters => s.groups.grid.some(p => letters.test(p.cells));
  const data = s.groups.count === 0 ? "There are no pools yet." : some(/[iu]/) ? "Some data is not served." :
    some(/p/) ? "Some data is about to be served." : "All data is served.";
  const osds = down > 0 ? plural(down, "OSD is down.", "OSDs are down.") : plural(s.osds.length, "OSD is up.", "OSDs are up.");
  set($("health-text"), osds + " " + data + (loud.length ? " " + plural(loud.length, "finding:", "findings:") : ""));
  document.title = (kind === "ok" ? "✓ " : kind === "warn" ? "! " : "✕ ") + "Humboldt";
  fill($("checks"), s.health.checks, () => s.health.checks.map(c => {
    const node = make("li", { class: (c.error ? "err" : "") + (c.muted ? " muted" : "") },
      make("div", { class: "head" }, c.text, make("code", {}, c.code + (c.muted ? " (muted)" : ""))));
    if (c.advice) node.append(make("p", {}, c.advice));
    if (c.detail.length) {
      const list = c.detail.map(line => make("li", {}, line));
      if (c.more) list.push(make("li", {}, c.more + " more"));
      node.append(make("details", {}, make("summary", {}, "details"), make("ul", {}, ...list)));
    }
    return node;
  }));
}

function drawCards(s) {
  const c = s.capacity, used = share(c.used, c.total);
  $("cap-big").replaceChildren(percent(used), make("small", {}, " used"));
  meter($("cap-meter"), used);
  set($("cap-text"), bytes(c.avail) + " of " + bytes(c.total) + " free · " + count(c.objects) + " objects, " + bytes(c.stored) + " of data");
  $("osd-big").replaceChildren(String(s.up), make("small", {}, " of " + s.osds.length + " up"));
  const hosts = new Set(s.osds.map(o => o.host)).size;
  set($("osd-text"), s.in + " in · " + plural(hosts, "host", "hosts") + " · map " + s.epoch);
  const clean = s.groups.grid.reduce((n, p) => n + (p.cells.match(/[cs]/g) ?? []).length, 0);
  $("pg-big").replaceChildren(String(clean), make("small", {}, " of " + s.groups.count + " clean"));
  set($("pg-text"), s.groups.states.slice(0, 3).map(g => g.count + " " + g.state).join(" · ") || "no pools yet");
  drawRecovery(s.recovery);
}

function drawRecovery(r) {
  const left = r.degraded + r.misplaced, done = r.copies > 0 ? 1 - Math.min(1, left / r.copies) : 1;
  meter($("rec-meter"), done, left ? "work" : "");
  // A full bar says that something is going on.
  $("rec-meter").hidden = !left;
  if (!left && !r.unfound) {
    set($("rec-big"), "Idle");
    set($("rec-text"), "Every object is where it belongs.");
    return;
  }
  $("rec-big").replaceChildren(percent(Math.floor(done * 1000) / 1000), make("small", {}, " in place"));
  const parts = [];
  if (r.degraded) parts.push(count(r.degraded) + " copies missing");
  if (r.misplaced) parts.push(count(r.misplaced) + " to move");
  if (r.unfound) parts.push(count(r.unfound) + " unfound");
  parts.push(r.objects_s ? count(r.objects_s) + " objects/s, " + rate(r.bytes_s) : "waiting");
  if (r.eta_s) parts.push("about " + span(r.eta_s) + " left");
  set($("rec-text"), parts.join(" · "));
}

function drawOsds(s) {
  const hosts = new Map();
  for (const o of s.osds) hosts.set(o.host, [...(hosts.get(o.host) ?? []), o]);
  fill($("hosts"), s.osds, () => [...hosts].map(([host, osds]) => {
    const up = osds.filter(o => o.up).length;
    return make("div", {}, make("h3", {}, host, make("span", { class: "tag" }, up + " of " + osds.length + " up")),
      make("ul", { class: "osds" }, ...osds.map(osdRow)));
  }));
}
function osdRow(o) {
  const state = (o.up ? "up" : "down") + (o.in ? "" : ", out");
  const used = share(o.used, o.total);
  const work = o.up ? count(o.read_ops + o.write_ops) + " op/s" : "down";
  const title = "osd." + o.id + ": " + state + ", " + percent(used) + " of " + bytes(o.total) + " used, " + o.pgs + " groups, read " +
    rate(o.read_bytes) + " " + latency(o.read_us) + ", write " + rate(o.write_bytes) + " " + latency(o.write_us);
  return make("li", { class: (o.up ? "" : "down") + (o.in ? "" : " out"), title, "data-osd": o.id },
    make("span", { class: "state", role: "img", "aria-label": state }), make("b", {}, "osd." + o.id), make("span", { class: "tag" }, o.class),
    bar(used, "osd." + o.id + " used"), make("span", { class: "tag" }, work));
}

const LETTERS = {
  c: "clean", s: "clean, being scrubbed", m: "moving", r: "being copied", d: "too few copies", p: "about to be served", x: "damaged",
  i: "not served", u: "unheard of",
};
function drawGroups(s) {
  const all = {};
  for (const pool of s.groups.grid) for (const c of pool.cells) all[c] = (all[c] ?? 0) + 1;
  fill($("legend"), all, () => Object.keys(LETTERS).filter(c => all[c]).map(c => make("li", {}, make("i", { class: c }), LETTERS[c] + " " + all[c])));
  fill($("grid"), s.groups.grid, () => s.groups.grid.length === 0 ? [make("p", { class: "quiet" }, "No pools yet.")] : s.groups.grid.map(pool => {
    const counts = {};
    for (const c of pool.cells) counts[c] = (counts[c] ?? 0) + 1;
    const said = Object.keys(LETTERS).filter(c => counts[c]).map(c => counts[c] + " " + LETTERS[c]).join(", ");
    const cells = make("div", { class: "cells", role: "img", "aria-label": pool.name + ": " + said });
    [...pool.cells].forEach((c, i) => cells.append(make("i", { class: c, title: pool.pool + "." + i.toString(16) + " " + LETTERS[c] })));
    return make("div", { class: "pool-row" }, make("h3", { title: pool.name }, pool.name), cells);
  }));
}

function drawPools(s) {
  const body = $("pools").tBodies[0];
  fill(body, s.pools, () => s.pools.length === 0 ? [make("tr", { class: "none" }, make("td", { colspan: 9 }, "No pools yet. Make one: ceph osd pool create NAME"))] :
    s.pools.map(p => {
      const cell = text => make("td", { class: "n" }, text);
      const io = (ops, b) => ops || b ? count(ops) + " op/s, " + rate(b) : "–";
      return make("tr", {}, make("td", {}, p.name + (p.full ? " (full)" : "")), cell(bytes(p.stored)), cell(count(p.objects)),
        make("td", {}, bar(p.share, p.name + " used")), cell(bytes(p.avail)), cell(String(p.size)), cell(String(p.pg_num)),
        cell(io(p.read_ops, p.read_bytes)), cell(io(p.write_ops, p.write_bytes)));
    }));
}

function drawClients(s) {
  fill($("clients").tBodies[0], s.clients, () => s.clients.length === 0 ? [make("tr", { class: "none" }, make("td", { colspan: 6 }, "No client does anything just now."))] :
    s.clients.map(c => {
      const cell = text => make("td", { class: "n" }, text);
      const io = (ops, b) => ops || b ? count(ops) + " op/s, " + rate(b) : "–";
      return make("tr", {}, make("td", {}, c.name), make("td", {}, c.addr.replace(/^v[12]:/, "").replace(/\/.*/, "")), cell(io(c.read_ops, c.read_bytes)),
        cell(latency(c.read_us)), cell(io(c.write_ops, c.write_bytes)), cell(latency(c.write_us)));
    }));
}

function drawLog(s) {
  const lines = s.log.filter(l => l.level !== "DBG");
  fill($("log"), lines, () => lines.map(l => make("li", { class: l.level },
    make("time", { datetime: new Date(l.at_s * 1000).toISOString() }, clock(l.at_s)), make("span", { class: "lv" }, l.level), make("span", {}, l.text))));
  $("slow-card").hidden = s.slow.length === 0;
  fill($("slow"), s.slow, () => s.slow.map(d => make("li", {}, d.daemon + ": " + plural(d.count, "request", "requests") + ", the oldest waits for " + span(d.oldest_s))));
}

function drawNow(io) {
  set($("ops-r"), count(io.read_ops)); set($("ops-w"), count(io.write_ops));
  set($("bytes-r"), rate(io.read_bytes)); set($("bytes-w"), rate(io.write_bytes));
  set($("lat-r"), latency(io.read_us)); set($("lat-w"), latency(io.write_us));
}

// The last hour: columns of equal length.
const past = { at_s: [] };
const COLUMNS = ["read_ops", "write_ops", "read_bytes", "write_bytes", "read_us", "write_us"];
function addPast(more) {
  const last = past.at_s[past.at_s.length - 1] ?? 0;
  more.at_s.forEach((at, i) => {
    if (at <= last) return;
    past.at_s.push(at);
    for (const c of COLUMNS) (past[c] ??= []).push(more[c][i]);
  });
  for (const c of ["at_s", ...COLUMNS]) if (past[c]) past[c] = past[c].slice(-360);
  drawPlots();
}

const PLOTS = [
  { id: "plot-ops", of: ["read_ops", "write_ops"], text: n => count(n), what: "operations per second" },
  { id: "plot-bytes", of: ["read_bytes", "write_bytes"], text: rate, what: "throughput", base: 1024 },
  { id: "plot-lat", of: ["read_us", "write_us"], text: latency, what: "mean latency" },
];
const NS = "http://www.w3.org/2000/svg";
function svg(tag, attributes, text) {
  const node = document.createElementNS(NS, tag);
  for (const key in attributes) node.setAttribute(key, attributes[key]);
  if (text !== undefined) node.textContent = text;
  return node;
}
// The next round number: a few steps to a power of ten (or of two, for bytes).
function ceiling(max, base) {
  if (max <= 0) return base ?? 1;
  const power = base ? 2 ** Math.floor(Math.log2(max)) : 10 ** Math.floor(Math.log10(max));
  return (base ? [1, 1.25, 1.5, 2] : [1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10]).map(n => n * power).find(n => n >= max);
}
const HOUR = 3600;
function drawPlots() {
  const end = past.at_s[past.at_s.length - 1] ?? Date.now() / 1000;
  for (const plot of PLOTS) {
    const node = $(plot.id), width = node.clientWidth || 360, height = 130, left = 4, bottom = 18, top = 14;
    const series = plot.of.map(c => past[c] ?? []);
    const max = ceiling(Math.max(0, ...series.flat()), plot.base);
    const x = at => left + (width - 2 * left) * (1 - (end - at) / HOUR), y = v => top + (height - top - bottom) * (1 - v / max);
    const art = svg("svg", { viewBox: "0 0 " + width + " " + height, role: "img", preserveAspectRatio: "none" });
    const now = series.map(s => plot.text(s[s.length - 1] ?? 0));
    art.append(svg("title", {}, plot.what + " over the last hour, at most " + plot.text(max) + "; now read " + now[0] + ", write " + now[1]));
    for (const v of [0, max / 2, max]) art.append(svg("line", { class: "rule", x1: left, x2: width - left, y1: y(v), y2: y(v) }));
    art.append(svg("text", { x: left, y: y(max) - 4 }, plot.text(max)));
    for (const [minutes, anchor] of [[60, "start"], [30, "middle"], [0, "end"]]) {
      art.append(svg("text", { x: x(end - 60 * minutes), y: height - 4, "text-anchor": anchor }, minutes ? "−" + minutes + " min" : "now"));
    }
    series.forEach((values, i) => {
      if (values.length === 0) return;
      const name = i === 0 ? "read" : "write";
      const line = values.map((v, j) => (j ? "L" : "M") + x(past.at_s[j]).toFixed(1) + " " + y(v).toFixed(1)).join("");
      const area = line + "L" + x(end).toFixed(1) + " " + y(0) + "L" + x(past.at_s[0]).toFixed(1) + " " + y(0) + "Z";
      art.append(svg("path", { class: name + "-fill", d: area }), svg("path", { class: name, d: line }));
    });
    node.replaceChildren(art);
    node.onpointermove = e => point(node, art, plot, e, x, top, height - bottom);
    node.onpointerleave = () => { node.querySelector(".tip")?.remove(); art.querySelector(".cursor")?.remove(); };
  }
}
function point(node, art, plot, e, x, top, bottom) {
  if (past.at_s.length === 0) return;
  const at = e.clientX - node.getBoundingClientRect().left;
  let near = 0;
  past.at_s.forEach((s, i) => { if (Math.abs(x(s) - at) < Math.abs(x(past.at_s[near]) - at)) near = i; });
  const px = x(past.at_s[near]);
  art.querySelector(".cursor")?.remove();
  art.append(svg("line", { class: "cursor", x1: px, x2: px, y1: top, y2: bottom }));
  const tip = node.querySelector(".tip") ?? node.appendChild(make("div", { class: "tip" }));
  tip.textContent = clock(past.at_s[near]) + "  read " + plot.text(past[plot.of[0]][near]) + "  write " + plot.text(past[plot.of[1]][near]);
  tip.style.left = Math.max(0, Math.min(node.clientWidth - tip.offsetWidth, px - tip.offsetWidth / 2)) + "px";
}

function draw(s) {
  set($("fsid"), s.fsid);
  drawHealth(s); drawCards(s); drawNow(s.io); drawOsds(s); drawGroups(s); drawPools(s); drawClients(s); drawLog(s);
  set($("foot"), s.version + (s.ours ? "" : " · figures by the manager " + s.manager));
  document.body.dataset.states = Number(document.body.dataset.states ?? 0) + 1;
}

let heard = 0;
function connect() {
  const events = new EventSource("events");
  events.addEventListener("state", e => { heard = Date.now(); draw(JSON.parse(e.data)); linked(true); });
  events.addEventListener("past", e => addPast(JSON.parse(e.data)));
  events.onerror = () => {
    linked(false);
    if (events.readyState === EventSource.CLOSED) setTimeout(connect, 2000);
  };
}
function linked(yes) {
  $("link").className = yes ? "quiet" : "lost";
  set($("link"), yes ? "live" : "no connection; what you see is of " + (heard ? clock(heard / 1000) : "nothing yet"));
}
new ResizeObserver(drawPlots).observe($("plot-ops"));
connect();
