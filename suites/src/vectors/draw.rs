//! Numbers and bytes that cases are drawn from, and the form in which an operation goes to `send.py`.

use serde_json::{Map, Value, json};

/// An operation's fields by their names, as `send.py` takes them.
pub type Op = Map<String, Value>;

/// Draws numbers (splitmix64): a seed is a case for good.
pub struct Draw(pub u64);

impl Draw {
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ z >> 31) % end
    }
    pub fn one<'a, T: ?Sized>(&mut self, of: &[&'a T]) -> &'a T {
        of[self.below(of.len() as u64) as usize]
    }
    pub fn flag(&mut self) -> u8 {
        self.below(2) as u8
    }
}

pub fn hex(bytes: &[u8]) -> Value {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into()
}

/// A length and bytes.
pub fn text(of: &str) -> Vec<u8> {
    [&(of.len() as u32).to_le_bytes()[..], of.as_bytes()].concat()
}

/// What stands in a frame of that version.
pub fn framed(version: u8, body: &[u8]) -> Vec<u8> {
    [&[version, 1][..], &(body.len() as u32).to_le_bytes(), body].concat()
}

pub fn op(name: &str, fields: Value) -> Op {
    let mut op = fields.as_object().cloned().unwrap_or_default();
    op.insert("op".into(), name.into());
    op
}

pub fn call(class: &str, method: &str, input: &[u8]) -> Op {
    op("exec", json!({ "class": class, "method": method, "data": hex(input) }))
}
