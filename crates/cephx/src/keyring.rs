//! Keyrings: entities, their keys and capabilities, as files and as records.
//!
//! ```text
//! [client.admin]
//!     key = AQBMcgFrN+yCDxAAzvqrhEhGZxuB45rELl9uFw==
//!     caps mon = "allow *"
//! ```

use crate::{CryptoKey, KeyError};
use bytes::Bytes;
use denc::{Decoder, Denc, DencError, Encoder};
use std::collections::BTreeMap;
use std::fmt;
use types::EntityText;

/// What is known of one entity.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EntityAuth {
    pub key: CryptoKey,
    /// Capability texts by service (`mon`, `osd`, `mgr`, `mds`).
    pub caps: BTreeMap<String, String>,
    /// A key that will replace `key` once it has been used.
    pub pending_key: CryptoKey,
}

/// Version 3; a capability is a string inside a buffer.
impl Denc for EntityAuth {
    fn encode(&self, e: &mut Encoder) {
        e.u8(3);
        e.u64(u64::MAX);
        self.key.encode(e);
        e.count(self.caps.len());
        for (service, text) in &self.caps {
            service.encode(e);
            e.sized(|e| text.encode(e));
        }
        self.pending_key.encode(e);
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        let v = d.u8()?;
        if v >= 2 {
            d.skip(8)?;
        }
        let key = d.get()?;
        let caps: BTreeMap<String, Bytes> = d.get()?;
        let mut texts = BTreeMap::new();
        for (service, text) in caps {
            texts.insert(service, if text.is_empty() { String::new() } else { String::from_bytes(&text)? });
        }
        Ok(Self { key, caps: texts, pending_key: if v >= 3 { d.get()? } else { CryptoKey::default() } })
    }
}

/// Entities by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Keyring {
    pub entities: BTreeMap<EntityText, EntityAuth>,
}

impl Keyring {
    /// Reads a keyring file.
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        let mut ring = Self::default();
        let mut section: Option<EntityText> = None;
        let mut lines = text.lines().enumerate();
        while let Some((number, line)) = lines.next() {
            let bad = |what: String| KeyError::Keyring { line: number + 1, what };
            let mut line = line.trim().to_string();
            while line.ends_with('\\') {
                line.pop();
                line.push_str(lines.next().map_or("", |(_, more)| more.trim()));
            }
            if line.is_empty() || line.starts_with(['#', ';']) {
                continue;
            }
            if let Some(name) = line.strip_prefix('[') {
                let name = name.split_once(']').ok_or_else(|| bad("a section without ]".into()))?.0.trim();
                section = match name {
                    "global" => None,
                    _ => Some(EntityText::parse(name).ok_or_else(|| bad(format!("bad entity name: {name}")))?),
                };
                if let Some(name) = &section {
                    ring.entities.entry(name.clone()).or_default();
                }
                continue;
            }
            let Some(name) = &section else { continue };
            let (field, value) = line.split_once('=').ok_or_else(|| bad(format!("no = in: {line}")))?;
            let value = unquote(value.trim());
            let field = field.replace('_', " ").split_whitespace().collect::<Vec<_>>().join(" ");
            let entity = ring.entities.entry(name.clone()).or_default();
            match field.as_str() {
                "key" => entity.key = CryptoKey::from_base64(&value)?,
                "pending key" => entity.pending_key = CryptoKey::from_base64(&value)?,
                "auid" => {}
                _ => match field.strip_prefix("caps ") {
                    Some(service) => drop(entity.caps.insert(service.to_string(), value)),
                    None => return Err(bad(format!("unknown field: {field}"))),
                },
            }
        }
        Ok(ring)
    }
    pub fn get(&self, name: &EntityText) -> Option<&EntityAuth> {
        self.entities.get(name)
    }
}

/// Takes off quotes and the escapes within; without quotes a comment ends the value.
fn unquote(value: &str) -> String {
    let Some(quote) = value.chars().next().filter(|c| *c == '"' || *c == '\'') else {
        return value.split(['#', ';']).next().unwrap_or("").trim().to_string();
    };
    let mut out = String::new();
    let mut chars = value[1..].chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => out.extend(chars.next()),
            c if c == quote => break,
            c => out.push(c),
        }
    }
    out
}

/// As Ceph writes keyring files.
impl fmt::Display for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, entity) in &self.entities {
            write_entity(f, name, entity)?;
        }
        Ok(())
    }
}

fn write_entity(f: &mut dyn fmt::Write, name: &EntityText, entity: &EntityAuth) -> fmt::Result {
    writeln!(f, "[{name}]")?;
    writeln!(f, "\tkey = {}", entity.key.to_base64())?;
    if !entity.pending_key.is_empty() {
        writeln!(f, "\tpending key = {}", entity.pending_key.to_base64())?;
    }
    for (service, text) in &entity.caps {
        writeln!(f, "\tcaps {service} = \"{}\"", text.replace('"', "\\\""))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const STOCK: &str = "[mon.]\n\tkey = AQBMcgFrreoHDhAAxoRONpKVSS1kpAX+v6Sd9Q==\n\tcaps mon = \"allow *\"\n[client.admin]\n\
        \tkey = AQBMcgFrN+yCDxAAzvqrhEhGZxuB45rELl9uFw==\n\tcaps mds = \"allow *\"\n\tcaps mon = \"allow command \\\"osd tree\\\"\"\n";

    #[test]
    fn a_file_comes_back() {
        let ring = Keyring::parse(STOCK).unwrap();
        let admin = ring.get(&EntityText::parse("client.admin").unwrap()).unwrap();
        assert_eq!(admin.caps["mon"], "allow command \"osd tree\"");
        assert_eq!(Keyring::parse(&ring.to_string()).unwrap(), ring);
        assert!(ring.to_string().contains("\tcaps mon = \"allow command \\\"osd tree\\\"\"\n"));
        assert_eq!(EntityAuth::from_bytes(&admin.to_bytes(0)).unwrap(), *admin);
    }

    #[test]
    fn what_is_no_keyring_says_where() {
        assert!(matches!(Keyring::parse("[client.a]\nkey"), Err(KeyError::Keyring { line: 2, .. })));
        assert!(matches!(Keyring::parse("[nobody]\n"), Err(KeyError::Keyring { line: 1, .. })));
        assert!(Keyring::parse("[client.a]\nkey = AQ\n").is_err());
    }
}
