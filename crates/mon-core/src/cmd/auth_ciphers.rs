//! Types of keys, as 20.2 asks for them and sets them: `auth dump-keys`, `mon set auth_*`.
//!
//! New keys are of the type that is preferred. The monitor refuses no key for its type, and chooses a ticket's by the keys of the service's
//! daemons ([`crate::auth::AuthService::ticket_kind`]): neither is a setting here. Absent: making and changing keys, which is `auth`'s.

use super::{CmdError, CmdResult, Command, Ctx, Reply, cmd};
use cephx::{CryptoKey, EntityAuth, KeyType, RotatingSecrets};
use serde_json::{Value, json};
use types::{EntityKind, EntityText, UTime, errno};

pub const COMMANDS: &[Command] = &[
    cmd("auth dump-keys", "all keys and secrets of services, with their types and times", "auth", "rwx", dump_keys),
    cmd(
        "mon set name=name,type=CephChoices,strings=auth_service_cipher|auth_allowed_ciphers|auth_preferred_cipher \
         name=value,type=CephString",
        "sets of which types keys and tickets are",
        "mon",
        "rw",
        set,
    ),
];

/// Services whose tickets another daemon reads.
const SERVICES: [EntityKind; 3] = [EntityKind::OSD, EntityKind::MDS, EntityKind::MGR];

fn invalid<T>(text: impl Into<String>) -> Result<T, CmdError> {
    Err(CmdError::new(errno::EINVAL, text))
}
fn refuse<T>(text: &str) -> Result<T, CmdError> {
    Err(CmdError::new(errno::EOPNOTSUPP, text))
}

/// A key's type and time. The secret itself is `auth get`'s to show.
fn key_json(key: &CryptoKey) -> Value {
    let created = if key.created == UTime::ZERO { "0.000000".to_string() } else { key.created.to_string() };
    json!({"type": key.kind.0, "type_str": key.kind.name(), "created": created})
}
fn entity_json(kind: EntityKind, id: &str) -> Value {
    json!({"type": kind.0, "type_str": kind.name(), "id": id})
}
fn holder_json(name: &EntityText, holder: &EntityAuth) -> Value {
    let caps: Vec<Value> = holder.caps.iter().map(|(service, text)| json!({"service_name": service, "access_spec": text})).collect();
    let auth = json!({"key": key_json(&holder.key), "pending_key": key_json(&holder.pending_key), "caps": caps});
    json!({"entity": entity_json(name.kind, &name.id), "auth": auth})
}

fn dump_keys(ctx: &mut Ctx<'_>) -> CmdResult {
    let auth = &ctx.mon.auth;
    let rotating = auth.secrets();
    let of_service = |(service, secrets): (&u32, &RotatingSecrets)| {
        let all = secrets.secrets.iter().map(
            |(id, secret)| json!({"id": id, "expiring_key": {"key": key_json(&secret.key), "expiration": secret.expiration.to_string()}}),
        );
        let keys: Vec<Value> = all.collect();
        let kind = EntityKind(u8::try_from(*service).unwrap_or_default());
        json!({"entity": entity_json(kind, "*"), "secrets": {"max_ver": secrets.max_ver, "keys": keys}})
    };
    let holders: Vec<Value> =
        auth.entities.iter().filter(|(name, _)| name.kind != EntityKind::MON).map(|(name, e)| holder_json(name, e)).collect();
    let services: Vec<Value> = rotating.services.iter().map(of_service).collect();
    let data = json!({
        "version": auth.version,
        "rotating_version": rotating.version,
        "secrets": holders,
        "rotating_secrets": services,
    });
    ctx.answer_json(json!({"data": data}))
}

fn set(ctx: &mut Ctx<'_>) -> CmdResult {
    let (name, value) = (ctx.args.need("name")?, ctx.args.need("value")?);
    let kind = |word: &str| KeyType::parse(word.trim()).map_or_else(|| invalid(format!("invalid cipher: '{}'", word.trim())), Ok);
    let kinds: Vec<KeyType> = value.split(',').map(kind).collect::<Result<_, _>>()?;
    let mon = &mut *ctx.mon;
    match (name.as_str(), &kinds[..]) {
        ("auth_preferred_cipher", [one]) => {
            mon.auth.prefer(*one, &mut mon.batch);
            Ok(Reply::status(format!("new keys are of type {}", one.name())))
        }
        ("auth_allowed_ciphers", both) if both.contains(&KeyType::AES) && both.contains(&KeyType::AES256K) => {
            Ok(Reply::status("keys of both types are allowed"))
        }
        ("auth_allowed_ciphers", _) => refuse(
            "this monitor allows keys of both types: `ceph auth dump-keys` shows each key's, and `ceph auth rotate --key-type aes256k NAME` \
             makes another",
        ),
        ("auth_service_cipher", [one]) if SERVICES.iter().all(|service| mon.auth.ticket_kind(*service) == *one) => {
            Ok(Reply::status(format!("tickets are of type {}", one.name())))
        }
        ("auth_service_cipher", [_]) => refuse(
            "tickets of a service are of type aes256k as soon as all keys of its daemons are, and of type aes before: \
             `ceph auth rotate --key-type aes256k NAME` makes a daemon's key anew",
        ),
        _ => invalid(format!("{name} takes one cipher: aes or aes256k")),
    }
}
