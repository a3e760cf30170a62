//! Watches and notifies, as far as they change the object or answer at once. What they do to connections are effects of the plan.

use super::exec::{Answer, Exec, Step, answer, done, fail};
use super::plan::WatchEffect;
use denc::{Decoder, Denc, DencError, Encoder};
use types::errno::{EBUSY, EINVAL, EMSGSIZE, ENOENT, ENOTCONN, ETIMEDOUT, EUSERS};
use types::osd_op::watch_op;
use types::{Bytes, OsdOp, WatchInfo};

/// Watches of one object: its record, which is written with each change, holds them all. Source: ours; stock has no limit.
const WATCHERS_MAX: usize = 4096;
/// The longest that a watch outlives its client, seconds. Source: ours; stock takes any.
const WATCH_TIMEOUT_MAX_S: u32 = 86_400;
/// The longest that a notify waits for watchers, seconds, and what it may tell them, bytes: both are kept until all have answered. Source:
/// ours; librbd's have a few KiB and wait for 10 s.
const NOTIFY_TIMEOUT_MAX_S: u32 = 3_600;
const PAYLOAD_MAX: usize = 8 << 20;
/// A notify to one watcher costs as much as so many keys looked at.
const NOTIFY_STEPS: u64 = 64;

/// What a notify that is under way, and each watcher that it waits for, costs beside what it says, bytes.
const NOTIFY_BYTES: u64 = 512;
const WATCHER_BYTES: u64 = 192;

/// Bytes that a notify of so many bytes to so many watchers holds until all have answered.
pub fn notify_bytes(payload: usize, watchers: usize) -> u64 {
    payload as u64 + NOTIFY_BYTES + watchers as u64 * WATCHER_BYTES
}

/// The payload of NOTIFY: a version of old, the timeout in seconds, and what to tell the watchers.
fn decode_notify(indata: &Bytes) -> Result<(u32, Bytes), DencError> {
    let mut d = Decoder::new(indata.clone());
    d.skip(4)?;
    Ok((d.u32()?, d.blob()?))
}

/// The payload of NOTIFY_ACK: the notify's id, the watch's cookie, and the answer, if any.
fn decode_ack(indata: &Bytes) -> Result<(u64, u64, Bytes), DencError> {
    let mut d = Decoder::new(indata.clone());
    let (id, cookie) = (d.u64()?, d.u64()?);
    Ok((id, cookie, if d.is_empty() { Bytes::new() } else { d.blob()? }))
}

impl Exec<'_> {
    pub fn op_watch(&mut self, op: &OsdOp) -> Step<Answer> {
        let args = op.watch();
        self.num_write += 1;
        if !self.exists {
            return fail(ENOENT);
        }
        let key = (args.cookie, self.ctx.reqid.name);
        let known = self.info.watchers.contains_key(&key);
        let timeout_s = if args.timeout_s != 0 { args.timeout_s } else { self.ctx.limits.watch_timeout_s };
        let timeout_s = timeout_s.min(WATCH_TIMEOUT_MAX_S);
        let info = || WatchInfo { cookie: args.cookie, timeout_s, addr: *self.ctx.peer_addr };
        match args.op {
            watch_op::WATCH | watch_op::LEGACY_WATCH => {
                let info = info();
                if !known {
                    if self.info.watchers.len() >= WATCHERS_MAX {
                        return fail(EUSERS);
                    }
                    self.info_mut().watchers.insert(key, info.clone());
                    self.modify = true;
                }
                self.effects.push(WatchEffect::Connect { info, will_ping: args.op == watch_op::WATCH });
            }
            watch_op::RECONNECT => {
                if !known {
                    return fail(ENOTCONN);
                }
                let info = info();
                self.effects.push(WatchEffect::Connect { info, will_ping: true });
            }
            watch_op::PING => {
                if !known {
                    return fail(ENOTCONN);
                }
                if !(self.ctx.watch_connected)(args.cookie) {
                    return fail(ETIMEDOUT);
                }
                self.effects.push(WatchEffect::Ping { cookie: args.cookie });
            }
            watch_op::UNWATCH if known => {
                self.info_mut().watchers.remove(&key);
                self.modify = true;
                self.effects.push(WatchEffect::Disconnect { cookie: args.cookie, entity: key.1, send: false });
            }
            _ => {}
        }
        done()
    }

    /// NOTIFY answers the id of the notify; its completion is a message of its own.
    pub fn op_notify(&mut self, op: &OsdOp, indata: &Bytes) -> Step<Answer> {
        self.num_read += 1;
        let (mut timeout_s, payload) = decode_notify(indata).unwrap_or_default();
        if timeout_s == 0 {
            timeout_s = self.ctx.limits.notify_timeout_s;
        }
        let timeout_s = timeout_s.min(NOTIFY_TIMEOUT_MAX_S);
        if payload.len() > PAYLOAD_MAX {
            return fail(EMSGSIZE);
        }
        // Every watcher is sent one.
        self.costs.steps(NOTIFY_STEPS * self.info.watchers.len() as u64)?;
        self.notify_bytes += notify_bytes(payload.len(), self.info.watchers.len());
        if self.notify_bytes > self.ctx.notify_budget {
            return fail(EBUSY);
        }
        let id = self.ctx.next_notify_id + self.notifies;
        self.notifies += 1;
        self.effects.push(WatchEffect::Notify { id, cookie: op.notify().cookie, timeout_s, payload });
        answer(id.to_bytes(0))
    }

    pub fn op_notify_ack(&mut self, op: &OsdOp, indata: &Bytes) -> Step<Answer> {
        self.num_read += 1;
        self.effects.push(match decode_ack(indata) {
            Ok((id, cookie, payload)) => WatchEffect::NotifyAck { id, cookie: Some(cookie), payload },
            // Clients of old put the notify's id where the cookie is.
            Err(_) => WatchEffect::NotifyAck { id: op.notify().cookie, cookie: None, payload: Bytes::new() },
        });
        done()
    }

    /// LIST_WATCHERS, as the object remembers them: `obj_list_watch_response_t`.
    pub fn op_list_watchers(&mut self) -> Step<Answer> {
        self.num_read += 1;
        self.stats.num_rd += 1;
        let watchers = &self.info.watchers;
        let mut e = Encoder::with_capacity(self.ctx.peer_features, 16 + watchers.len() * 80);
        e.frame(1, 1, |e| {
            e.count(watchers.len());
            for ((cookie, name), watch) in watchers {
                e.frame(2, 1, |e| {
                    e.put(name);
                    e.u64(*cookie);
                    e.u32(watch.timeout_s);
                    e.put(&watch.addr);
                });
            }
        });
        answer(e.finish())
    }

    /// ASSERT_VER: the object has exactly this user version.
    pub fn op_assert_ver(&mut self, op: &OsdOp) -> Step<Answer> {
        self.num_read += 1;
        match op.assert_ver().ver {
            0 => fail(EINVAL),
            ver if ver < self.info.user_version => fail(types::errno::ERANGE),
            ver if ver > self.info.user_version => fail(types::errno::EOVERFLOW),
            _ => done(),
        }
    }
}
