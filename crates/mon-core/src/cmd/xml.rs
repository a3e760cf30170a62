//! JSON as the XML that Ceph's formatter makes of the same answer.
//!
//! XML names what JSON doesn't: the answer as a whole, and the elements of a list. Both stand in tables here, recorded from 18.2.7 (each command that
//! needs no argument, asked for both forms); a name that is in neither is made of the command's last word, or of the list's own name.

use serde_json::Value;
use std::fmt::Write;

/// Names of answers by commands, where it is not the command's last word.
const ROOTS: &[(&str, &str)] = &[
    ("auth export", "auth"),
    ("auth list", "auth"),
    ("auth ls", "auth"),
    ("config dump", "config"),
    ("config get", "config"),
    ("config help", "option"),
    ("config log", "changesets"),
    ("config ls", "options"),
    ("config-key dump", "config-key_store"),
    ("config-key list", "keys"),
    ("config-key ls", "keys"),
    ("df", "stats"),
    ("fs dump", "fsmap"),
    ("fs feature ls", "cephfs_features"),
    ("fs ls", "filesystems"),
    ("health detail", "health"),
    ("log last", "tail"),
    ("mds compat show", "mds_compat"),
    ("mds metadata", "mds_metadata"),
    ("mds stat", "mds_stat"),
    ("mds versions", "ceph_version"),
    ("mgr dump", "mgrmap"),
    ("mgr metadata", "mgr_metadata"),
    ("mgr module ls", "modules"),
    ("mgr versions", "ceph_version"),
    ("mon dump", "monmap"),
    ("mon feature ls", "features"),
    ("mon metadata", "mon_metadata"),
    ("mon stat", "monmap"),
    ("mon versions", "ceph_version"),
    ("node ls", "nodes"),
    ("osd blacklist ls", "blocklist"),
    ("osd blocklist ls", "blocklist"),
    ("osd crush class ls", "crush_classes"),
    ("osd crush class ls-osd", "osds"),
    ("osd crush dump", "crush_map"),
    ("osd crush get-device-class", "osd_device_classes"),
    ("osd crush ls", "items"),
    ("osd crush rule dump", "rules"),
    ("osd crush rule list", "rules"),
    ("osd crush rule ls", "rules"),
    ("osd crush rule ls-by-class", "rules"),
    ("osd crush show-tunables", "crush_map_tunables"),
    ("osd crush tree", "crush_tree"),
    ("osd crush weight-set dump", "choose_args"),
    ("osd crush weight-set ls", "weight_sets"),
    ("osd dump", "osdmap"),
    ("osd erasure-code-profile get", "profile"),
    ("osd erasure-code-profile ls", "erasure-code-profiles"),
    ("osd info", "osds"),
    ("osd ls", "osds"),
    ("osd lspools", "pools"),
    ("osd map", "osd_map"),
    ("osd metadata", "osd_metadata"),
    ("osd numa-status", "osds"),
    ("osd pool application get", "pools"),
    ("osd pool get", "pool"),
    ("osd pool ls", "pools"),
    ("osd stat", "osdmap"),
    ("osd versions", "ceph_version"),
    ("pg map", "pg_map"),
    ("time-sync-status", "time_sync"),
    ("versions", "version"),
];

/// Elements of lists by the lists' names, and whether the elements are texts or numbers (`v`), objects (`o`) or any (`a`). The first that fits counts.
const ITEMS: &[(&str, char, &str)] = &[
    ("acting", 'a', "osd"),
    ("auth", 'a', "auth_entities"),
    ("auth_dump", 'a', "auth_entities"),
    ("choose_args", 'a', "choose_args"),
    ("children", 'a', "child"),
    ("client", 'a', "group"),
    ("crush_classes", 'a', "class"),
    ("detail", 'a', "detail_item"),
    ("always_on_modules", 'a', "module"),
    ("cephfs_features", 'a', "feature"),
    ("flags", 'a', "option"),
    ("flags_set", 'a', "flag"),
    ("mds_metadata", 'a', "mds"),
    ("mgr_metadata", 'a', "mgr"),
    ("mon_metadata", 'a', "mon"),
    ("nodes", 'a', "item"),
    ("osd_epochs", 'a', "osd"),
    ("osd_metadata", 'a', "osd"),
    ("osd_xinfo", 'a', "xinfo"),
    ("osds", 'o', "osd_info"),
    ("osds", 'v', "osd"),
    ("persistent", 'a', "bit_flag"),
    ("pool_snaps", 'a', "pool_snap_info"),
    ("pools", 'o', "pool"),
    ("pools", 'v', "pool_name"),
    ("quorum", 'a', "mon"),
    ("quorum_mon", 'a', "bit_flag"),
    ("quorum_names", 'a', "mon"),
    ("removed_snaps_queue", 'a', "pool"),
    ("required", 'a', "bit_flag"),
    ("rules", 'o', "rule"),
    ("rules", 'v', "name"),
    ("see_also", 'a', "see_also"),
    ("snaps", 'a', "interval"),
    ("state", 'a', "state"),
    ("supported", 'a', "bit_flag"),
    ("up", 'a', "osd"),
    ("weight_set", 'a', "weights"),
    ("weight_sets", 'a', "pool"),
    ("blocklist", 'a', "entry"),
    ("filesystems", 'a', "filesystem"),
    ("pg_stats", 'a', "pg_stat"),
    ("osd_stats", 'a', "osd_stat"),
    ("pool_stats", 'a', "pool_stat"),
];

/// The name of a command's answer.
fn root(prefix: &str) -> String {
    let known = ROOTS.iter().find(|(command, _)| *command == prefix).map(|(_, name)| (*name).to_string());
    known.unwrap_or_else(|| prefix.rsplit(' ').next().unwrap_or_default().replace('-', "_"))
}

/// The name of a list's element.
fn item_of(list: &str, item: &Value) -> String {
    let kind = if item.is_object() || item.is_array() { 'o' } else { 'v' };
    if let Some((.., name)) = ITEMS.iter().find(|(of, fits, _)| *of == list && (*fits == 'a' || *fits == kind)) {
        return (*name).to_string();
    }
    match (list.strip_suffix("ies"), list.strip_suffix('s')) {
        (Some(stem), _) => format!("{stem}y"),
        (None, Some(stem)) if !stem.is_empty() => stem.to_string(),
        _ => "item".into(),
    }
}

/// An answer of that command. Pretty: a line for each value, one blank a level.
pub fn dump(prefix: &str, value: &Value, pretty: bool) -> String {
    let mut out = String::new();
    element(&mut out, &root(prefix), value, pretty.then_some(0));
    out
}

fn element(out: &mut String, name: &str, value: &Value, level: Option<usize>) {
    let name = name.replace(' ', "_");
    let indent = |out: &mut String| out.extend(std::iter::repeat_n(' ', level.unwrap_or(0)));
    let end = |out: &mut String| out.extend(level.map(|_| '\n'));
    indent(out);
    let _ = write!(out, "<{name}>");
    let within = level.map(|level| level + 1);
    match value {
        Value::Object(fields) => {
            end(out);
            fields.iter().for_each(|(name, value)| element(out, name, value, within));
            indent(out);
        }
        Value::Array(items) => {
            end(out);
            items.iter().for_each(|item| element(out, &item_of(&name, item), item, within));
            indent(out);
        }
        Value::String(text) => escaped(out, text),
        Value::Null => {}
        Value::Bool(_) | Value::Number(_) => drop(write!(out, "{value}")),
    }
    let _ = write!(out, "</{name}>");
    end(out);
}

fn escaped(out: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '\'' => out.push_str("&apos;"),
            '"' => out.push_str("&quot;"),
            c if c.is_control() && c != '\t' && c != '\n' => drop(write!(out, "&#x{:02x};", u32::from(c))),
            c => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// As 18.2.7 answers them.
    #[test]
    fn answers_have_stocks_names() {
        assert_eq!(
            dump("osd pool ls", &json!(["bench", "rbd"]), false),
            "<pools><pool_name>bench</pool_name><pool_name>rbd</pool_name></pools>"
        );
        let tree = json!({"nodes": [{"id": -1, "children": [-3]}], "stray": []});
        let text = "<tree><nodes><item><id>-1</id><children><child>-3</child></children></item></nodes><stray></stray></tree>";
        assert_eq!(dump("osd tree", &tree, false), text);
        assert_eq!(dump("fsid", &json!({"fsid": "x"}), true), "<fsid>\n <fsid>x</fsid>\n</fsid>\n");
        assert_eq!(dump("osd getmaxosd", &json!({"epoch": 15}), false), "<getmaxosd><epoch>15</epoch></getmaxosd>");
        let health = json!({"status": "HEALTH_OK", "checks": {}, "mutes": []});
        assert_eq!(
            dump("health", &health, true),
            "<health>\n <status>HEALTH_OK</status>\n <checks>\n </checks>\n <mutes>\n </mutes>\n</health>\n"
        );
    }

    #[test]
    fn what_would_end_a_value_is_written_out() {
        let sharp = json!({"a b": "0'0 <&\"\u{1}"});
        assert_eq!(dump("x", &sharp, false), "<x><a_b>0&apos;0 &lt;&amp;&quot;&#x01;</a_b></x>");
    }
}
