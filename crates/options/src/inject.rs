//! `injectargs`: options as words of a command line, for a daemon that runs.

use crate::{find, normalise};

/// Reads `--name value`, `--name=value`, `--switch`, `--no-switch`: names with their values as they are kept. The error is the text to answer
/// with.
pub fn inject(text: &str) -> Result<Vec<(String, String)>, String> {
    let mut out = Vec::new();
    let mut words = text.split_whitespace();
    while let Some(word) = words.next() {
        if word == "--" {
            continue;
        }
        let unknown = || format!("failed to parse arguments: {word}");
        let bare = word.strip_prefix("--").filter(|w| !w.is_empty()).ok_or_else(unknown)?;
        let (name, given) = match bare.split_once('=') {
            Some((name, value)) => (normalise(name), Some(value.to_string())),
            None => (normalise(bare), None),
        };
        let is_switch = |name: &str| find(name).is_some_and(|o| o.kind == "bool");
        let (name, value) = match (given, name.strip_prefix("no_")) {
            (None, Some(off)) if is_switch(off) => (off.to_string(), "false".to_string()),
            (None, _) if is_switch(&name) => (name, "true".to_string()),
            (None, _) if find(&name).is_some() => {
                let value = words.next().ok_or_else(|| format!("Option --{name} requires an argument."))?;
                (name, value.to_string())
            }
            (Some(value), _) => (name, value),
            (None, _) => return Err(unknown()),
        };
        let info = find(&name).ok_or_else(unknown)?;
        let checked = info.check(&value).map_err(|_| format!("Parse error setting {name} to '{value}' using injectargs."))?;
        out.push((name, checked));
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_become_settings() {
        let one = |text: &str| inject(text).map(|all| all.into_iter().map(|(n, v)| format!("{n}={v}")).collect::<Vec<_>>().join(" "));
        assert_eq!(one("--no-osd_enable_op_tracker").unwrap(), "osd_enable_op_tracker=false");
        let two = one("--osd-enable-op-tracker --osd_op_history_duration 500").unwrap();
        assert_eq!(two, "osd_enable_op_tracker=true osd_op_history_duration=500");
        assert_eq!(one("-- --mon_pg_warn_min_objects=10K").unwrap(), "mon_pg_warn_min_objects=10000");
        assert_eq!(one("--osd_op_history_duration").unwrap_err(), "Option --osd_op_history_duration requires an argument.");
        let wrong = one("--osd-scrub-auto-repair-num-errors -1").unwrap_err();
        assert_eq!(wrong, "Parse error setting osd_scrub_auto_repair_num_errors to '-1' using injectargs.");
        assert!(one("--nonsense 1").is_err() && one("osd_op_history_duration 1").is_err());
    }
}
