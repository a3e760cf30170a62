//! The CRUSH map, shown: `osd crush dump`, rules, tunables, classes, and the map as bytes.

use super::{CmdError, CmdResult, Command, Ctx, Reply, cmd, cmd_flags, flag};
use crush::{CrushMap, Rule, Tunables, op};
use denc::Denc;
use serde_json::{Value, json};
use types::errno;

pub const COMMANDS: &[Command] = &[
    cmd("osd crush dump", "the CRUSH map", "osd", "r", dump_map),
    cmd("osd crush rule ls", "names of CRUSH rules", "osd", "r", rule_ls),
    cmd_flags("osd crush rule list", "names of CRUSH rules", "osd", "r", flag::DEPRECATED, rule_ls),
    cmd(
        "osd crush rule ls-by-class name=class,type=CephString,goodchars=[A-Za-z0-9-_.]",
        "rules that choose from a class",
        "osd",
        "r",
        ls_by_class,
    ),
    cmd("osd crush rule dump name=name,type=CephString,goodchars=[A-Za-z0-9-_.],req=false", "CRUSH rules, or one", "osd", "r", rule_dump),
    cmd("osd crush show-tunables", "the CRUSH map's tunables", "osd", "r", show_tunables),
    cmd("osd crush get-tunable name=tunable,type=CephChoices,strings=straw_calc_version", "one tunable", "osd", "r", get_tunable),
    cmd("osd crush class ls", "classes of devices", "osd", "r", |ctx| {
        let names = json!(ctx.mon.osd.map.crush.class_names.values().collect::<Vec<_>>());
        ctx.answer_json(names)
    }),
    cmd("osd crush class ls-osd name=class,type=CephString,goodchars=[A-Za-z0-9-_]", "OSDs of a class", "osd", "r", class_ls_osd),
    cmd("osd crush get-device-class name=ids,type=CephString,n=N", "classes of OSDs", "osd", "r", get_device_class),
    cmd("osd getcrushmap name=epoch,type=CephInt,range=0,req=false", "the CRUSH map, encoded", "osd", "r", getcrushmap),
];

fn rule_json(crush: &CrushMap, id: u32, rule: &Rule) -> Value {
    let steps: Vec<Value> = rule
        .steps
        .iter()
        .map(|s| {
            let choose = |name: &str| json!({"op": name, "num": s.arg1, "type": crush.type_name(s.arg2).unwrap_or_default()});
            match s.op {
                op::NOOP => json!({"op": "noop"}),
                op::TAKE => json!({"op": "take", "item": s.arg1, "item_name": crush.item_name(s.arg1).unwrap_or_default()}),
                op::EMIT => json!({"op": "emit"}),
                op::CHOOSE_FIRSTN => choose("choose_firstn"),
                op::CHOOSE_INDEP => choose("choose_indep"),
                op::CHOOSELEAF_FIRSTN => choose("chooseleaf_firstn"),
                op::CHOOSELEAF_INDEP => choose("chooseleaf_indep"),
                op::SET_CHOOSE_TRIES => json!({"op": "set_choose_tries", "num": s.arg1}),
                op::SET_CHOOSELEAF_TRIES => json!({"op": "set_chooseleaf_tries", "num": s.arg1}),
                other => json!({"opcode": other, "arg1": s.arg1, "arg2": s.arg2}),
            }
        })
        .collect();
    json!({
        "rule_id": id,
        "rule_name": crush.rule_names.get(&(id as i32)).cloned().unwrap_or_default(),
        "type": rule.kind,
        "steps": steps,
    })
}
fn rules(crush: &CrushMap) -> impl Iterator<Item = (u32, &Rule)> {
    crush.rules.iter().enumerate().filter_map(|(id, r)| Some((id as u32, r.as_ref()?)))
}

/// Names of sets of tunables, newest first, as far as tunables alone tell them apart.
pub fn profile(t: &Tunables) -> &'static str {
    let known = [
        ("jewel", [0, 0, 50, 1, 1, 1]),
        ("firefly", [0, 0, 50, 1, 1, 0]),
        ("bobtail", [0, 0, 50, 1, 0, 0]),
        ("argonaut", [2, 5, 19, 0, 0, 0]),
    ];
    let values = [
        t.choose_local_tries,
        t.choose_local_fallback_tries,
        t.choose_total_tries,
        t.chooseleaf_descend_once,
        u32::from(t.chooseleaf_vary_r),
        u32::from(t.chooseleaf_stable),
    ];
    match known.iter().find(|(_, v)| *v == values).map_or("unknown", |(name, _)| *name) {
        "firefly" if t.straw_calc_version == 1 && t.allowed_bucket_algs & STRAW2 != 0 => "hammer",
        name => name,
    }
}
/// `straw2` among the allowed algorithms.
const STRAW2: u32 = 1 << 5;

fn tunables_json(crush: &CrushMap) -> Value {
    let t = &crush.tunables;
    let has_op = |ops: &[u32]| rules(crush).any(|(_, r)| r.steps.iter().any(|s| ops.contains(&s.op)));
    let v2_rules = has_op(&[op::CHOOSE_INDEP, op::CHOOSELEAF_INDEP, op::SET_CHOOSE_TRIES, op::SET_CHOOSELEAF_TRIES]);
    let v3_rules = has_op(&[op::SET_CHOOSELEAF_VARY_R]);
    let v5_rules = has_op(&[op::SET_CHOOSELEAF_STABLE]);
    let v4_buckets = crush.iter_buckets().any(|b| b.alg().name() == "straw2");
    let need1 = (t.choose_local_tries, t.choose_local_fallback_tries, t.choose_total_tries) != (2, 5, 19);
    let (need2, need3, need5) = (t.chooseleaf_descend_once != 0, t.chooseleaf_vary_r != 0, t.chooseleaf_stable != 0);
    let oldest = match () {
        () if v5_rules || need5 => "jewel",
        () if v4_buckets => "hammer",
        () if need3 => "firefly",
        () if need2 || need1 => "bobtail",
        () => "argonaut",
    };
    let profile = profile(t);
    json!({
        "choose_local_tries": t.choose_local_tries,
        "choose_local_fallback_tries": t.choose_local_fallback_tries,
        "choose_total_tries": t.choose_total_tries,
        "chooseleaf_descend_once": t.chooseleaf_descend_once,
        "chooseleaf_vary_r": t.chooseleaf_vary_r,
        "chooseleaf_stable": t.chooseleaf_stable,
        "straw_calc_version": t.straw_calc_version,
        "allowed_bucket_algs": t.allowed_bucket_algs,
        "profile": profile,
        "optimal_tunables": u8::from(profile == "jewel"),
        "legacy_tunables": u8::from(profile == "argonaut"),
        "minimum_required_version": oldest,
        "require_feature_tunables": u8::from(need1),
        "require_feature_tunables2": u8::from(need2),
        "has_v2_rules": u8::from(v2_rules),
        "require_feature_tunables3": u8::from(need3),
        "has_v3_rules": u8::from(v3_rules),
        "has_v4_buckets": u8::from(v4_buckets),
        "require_feature_tunables5": u8::from(need5),
        "has_v5_rules": u8::from(v5_rules),
    })
}

fn dump_map(ctx: &mut Ctx<'_>) -> CmdResult {
    let json = crush_json(&ctx.mon.osd.map.crush);
    ctx.answer_json(json)
}

/// The whole CRUSH map.
pub fn crush_json(crush: &CrushMap) -> Value {
    let devices: Vec<Value> = (0..crush.max_devices)
        .filter_map(|id| {
            let mut v = json!({"id": id, "name": crush.item_name(id)?});
            if let Some(class) = crush.item_class(id) {
                v["class"] = json!(class);
            }
            Some(v)
        })
        .collect();
    let types: Vec<Value> = crush.type_names.iter().map(|(id, name)| json!({"type_id": id, "name": name})).collect();
    let mut buckets: Vec<_> = crush.iter_buckets().collect();
    buckets.sort_by_key(|b| std::cmp::Reverse(b.id));
    let buckets: Vec<Value> = buckets
        .into_iter()
        .map(|b| {
            let items: Vec<Value> =
                b.weighted().enumerate().map(|(pos, (id, weight))| json!({"id": id, "weight": weight, "pos": pos})).collect();
            json!({
                "id": b.id,
                "name": crush.item_name(b.id).unwrap_or_default(),
                "type_id": b.kind,
                "type_name": crush.type_name(b.kind.into()).unwrap_or_default(),
                "weight": b.weight,
                "alg": b.alg().name(),
                "hash": if b.hash == 0 { "rjenkins1" } else { "unknown" },
                "items": items,
            })
        })
        .collect();
    json!({
        "devices": devices,
        "types": types,
        "buckets": buckets,
        "rules": rules(crush).map(|(id, r)| rule_json(crush, id, r)).collect::<Vec<_>>(),
        "tunables": tunables_json(crush),
        "choose_args": choose_args_json(crush),
    })
}

/// Weight-sets and other ids of buckets, by what they are for.
pub fn choose_args_json(crush: &CrushMap) -> Value {
    let all: serde_json::Map<String, Value> = crush
        .choose_args
        .iter()
        .map(|(id, args)| {
            let rows: Vec<Value> = args
                .iter()
                .map(|(bucket, arg)| {
                    let mut v = json!({"bucket_id": -1 - i64::from(*bucket)});
                    let share = |w: &u32| f64::from(*w) / 65536.0;
                    if !arg.weight_set.is_empty() {
                        v["weight_set"] = arg.weight_set.iter().map(|w| w.iter().map(share).collect::<Vec<_>>()).collect();
                    }
                    if !arg.ids.is_empty() {
                        v["ids"] = json!(arg.ids);
                    }
                    v
                })
                .collect();
            (id.to_string(), json!(rows))
        })
        .collect();
    Value::Object(all)
}

fn rule_ls(ctx: &mut Ctx<'_>) -> CmdResult {
    let names: Vec<String> = ctx.mon.osd.map.crush.rule_names.values().cloned().collect();
    ctx.answer(json!(names), || names.iter().map(|n| format!("{n}\n")).collect())
}

fn ls_by_class(ctx: &mut Ctx<'_>) -> CmdResult {
    let class = ctx.args.need("class")?;
    let crush = &ctx.mon.osd.map.crush;
    let Some(class_id) = crush.class_id(&class) else {
        return Err(CmdError::new(errno::ENOENT, format!("failed to get rules by class '{class}'")));
    };
    let takes_class = |r: &Rule| {
        r.steps.iter().any(|s| s.op == op::TAKE && s.arg1 < 0 && crush.class_bucket.values().any(|of| of.get(&class_id) == Some(&s.arg1)))
    };
    let names: Vec<String> =
        rules(crush).filter(|(_, r)| takes_class(r)).filter_map(|(id, _)| crush.rule_names.get(&(id as i32)).cloned()).collect();
    ctx.answer(json!(names), || names.iter().map(|n| format!("{n}\n")).collect())
}

fn rule_dump(ctx: &mut Ctx<'_>) -> CmdResult {
    let crush = &*ctx.mon.osd.map.crush;
    let json = match ctx.args.text("name").filter(|n| !n.is_empty()) {
        None => rules(crush).map(|(id, r)| rule_json(crush, id, r)).collect(),
        Some(name) => {
            let found = crush.rule_id(&name).and_then(|id| Some((id, crush.rule(id)?)));
            let (id, rule) = found.ok_or_else(|| CmdError::new(errno::ENOENT, format!("unknown crush rule '{name}'")))?;
            rule_json(crush, id, rule)
        }
    };
    ctx.answer_json(json)
}

fn show_tunables(ctx: &mut Ctx<'_>) -> CmdResult {
    let json = tunables_json(&ctx.mon.osd.map.crush);
    ctx.answer_json(json)
}

fn get_tunable(ctx: &mut Ctx<'_>) -> CmdResult {
    let value = ctx.mon.osd.map.crush.tunables.straw_calc_version;
    ctx.answer(json!({"straw_calc_version": value}), || format!("{value}\n"))
}

fn class_ls_osd(ctx: &mut Ctx<'_>) -> CmdResult {
    let class = ctx.args.need("class")?;
    let osds = ctx.mon.osd.map.crush.devices_of_class(&class);
    ctx.answer(json!(osds), || osds.iter().map(|o| format!("{o}\n")).collect())
}

fn get_device_class(ctx: &mut Ctx<'_>) -> CmdResult {
    let map = &ctx.mon.osd.map;
    let mut rows = Vec::new();
    for word in ctx.args.list("ids") {
        if matches!(word.as_str(), "all" | "any" | "*") {
            rows = map.osds().collect();
            break;
        }
        let osd = super::parse_osd(&word)?;
        if !map.exists(osd) {
            return Err(CmdError::new(errno::ENOENT, format!("osd.{osd} does not exist")));
        }
        rows.push(osd);
    }
    let class = |o: &i32| map.crush.item_class(*o).unwrap_or_default();
    let json = rows.iter().map(|o| json!({"osd": o, "device_class": class(o)})).collect();
    ctx.answer(json, || rows.iter().map(|o| format!("{}\n", class(o))).collect())
}

fn getcrushmap(ctx: &mut Ctx<'_>) -> CmdResult {
    let map = super::osd_tree::map_of_request(ctx)?;
    let bytes = map.crush.to_bytes(map.canonical_features());
    Ok(Reply::data(bytes).with_status(map.crush_version.to_string()))
}
