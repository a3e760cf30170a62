//! Answers without what two clusters can't have alike: who holds a lock, from where and since when; tags drawn at random; places in logs, which tell
//! a group's version; what notes the OSD's own clock; and a bucket index' header, to which 20.2 added a field.

use super::case::Case;
use serde_json::Value;

/// Bytes of a header that a user wrote are fewer; more are a class' record.
const USERS_HEADER_MAX: usize = 3;

pub fn settled(mut answer: Value, case: &Case) -> Value {
    for held in answer["state"].as_array_mut().into_iter().flatten() {
        let Some(more) = held.get_mut("more").and_then(Value::as_array_mut) else { continue };
        let [attrs, omap, header] = &mut more[..] else { continue };
        mask_attrs(attrs);
        mask_omap(omap);
        mask_header(header);
    }
    let steps = answer["steps"].as_array_mut().into_iter().flatten();
    for (step, ops) in steps.zip(case.vectors()) {
        let Some(outs) = step.get_mut("outs").and_then(Value::as_array_mut) else { continue };
        for (out, op) in outs.iter_mut().zip(ops.into_iter().flatten()) {
            match op["op"].as_str() {
                Some("getxattrs") => mask_attrs(out),
                Some("omap_get_vals2" | "omap_get_keys2" | "omap_get_vals_by_keys") => mask_omap(out),
                Some("omap_get_header") => mask_header(out),
                Some("sparse_read") => *out = not_zero(out),
                Some("exec") if ["lock", "version"].iter().any(|class| op["class"] == *class) => *out = shorter(out),
                // Its length is that of the places in it.
                Some("exec") if op["class"] == "log" => *out = out.as_str().map_or(Value::Null, |text| text.is_empty().into()),
                Some("exec") if op["class"] == "rgw" => *out = Value::Null,
                Some("exec") if op["method"] == "snapshot_get" => *out = shorter(out),
                _ => {}
            }
        }
    }
    answer
}

fn mask_attrs(attrs: &mut Value) {
    for (name, value) in attrs.as_object_mut().into_iter().flatten() {
        // `lock.` and `ceph.objclass.version`, in hexadecimal.
        if name.starts_with("6c6f636b2e") || name == "636570682e6f626a636c6173732e76657273696f6e" {
            *value = shorter(value);
        }
    }
}

fn mask_header(header: &mut Value) {
    if header.as_str().is_some_and(|text| text.len() > 2 * USERS_HEADER_MAX) {
        *header = "of a class".into();
    }
}

fn mask_omap(omap: &mut Value) {
    let Some(pairs) = omap.as_object_mut() else { return };
    let masked = std::mem::take(pairs).into_iter().enumerate().map(|(at, (key, value))| {
        // `R`: an entry of an index.
        if key.starts_with("52") {
            return (key, shorter(&value));
        }
        match place_in_log(&key) {
            // It tells its own key, which is as long as the group's version.
            Some(time) => (format!("{time} {at}"), "of a log".into()),
            // `_timestamp`
            None if key.ends_with("5f74696d657374616d70") => (key, "a time".into()),
            // `snapshot_`
            None if key.starts_with("736e617073686f745f") => (key, shorter(&value)),
            None => (key, value),
        }
    });
    *pairs = masked.collect();
}

/// The bytes of a sparse read that are not zero, each with its offset: which holes a store knows is its own.
fn not_zero(out: &Value) -> Value {
    let (Some(extents), Some(data)) = (out[0].as_array(), out[1].as_str()) else { return Value::Null };
    let offsets = extents.iter().flat_map(|extent| (0..extent[1].as_u64().unwrap_or(0)).map(|at| extent[0].as_u64().unwrap_or(0) + at));
    let bytes = data.as_bytes().chunks(2).map(|byte| String::from_utf8_lossy(byte).into_owned());
    offsets.zip(bytes).filter(|(_, byte)| byte != "00").map(|(offset, byte)| format!("{offset}:{byte}")).collect()
}

/// The time in the key of an entry of class `log` that has no id of the caller's: `1_SECONDS.MICROSECONDS_VERSION.NUMBER`.
fn place_in_log(key: &str) -> Option<&str> {
    const TIME: usize = 2 * "1_0000000000.000000_".len();
    let (time, behind) = key.split_at_checked(TIME)?;
    (time.starts_with("315f") && time.ends_with("5f") && behind.starts_with('3')).then_some(time)
}

/// Its first six bytes: a frame's versions and length.
fn shorter(value: &Value) -> Value {
    value.as_str().map_or(Value::Null, |text| text.get(..12).unwrap_or(text).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn places_in_logs_are_told_by_their_time() {
        let hex = |text: &str| text.bytes().map(|byte| format!("{byte:02x}")).collect::<String>();
        let mut omap = json!({});
        for key in ["1_0000000003.000000_00000000017.42.1", "1_0000000003.000000_k", "1_k", "R1", "a"] {
            omap[hex(key)] = "00112233445566".into();
        }
        mask_omap(&mut omap);
        let place = format!("{} 0", hex("1_0000000003.000000_"));
        assert_eq!(omap[&place], "of a log");
        assert_eq!((&omap[hex("R1")], &omap[hex("a")]), (&json!("001122334455"), &json!("00112233445566")));
        assert_eq!(omap.as_object().unwrap().len(), 5);
    }
}
