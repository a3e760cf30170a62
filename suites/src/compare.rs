//! Recording what a stock cluster answers to the script of [`crate::commands`], and holding ours against the record.

use crate::clients::Release;
use crate::commands::{SCRIPT, Step, Want};
use crate::run::{Output, words};
use anyhow::{Context, Result};
use serde_json::{Map, Value, json};
use std::path::Path;
use std::time::Duration;

/// Runs one step; commands that answer JSON are asked for it.
pub fn ask(conf: &Path, step: &Step) -> Result<Output> {
    let mut args = words(step.args);
    if matches!(step.want, Want::Json | Want::JsonEqual) {
        args.extend(["-f".into(), "json".into()]);
    }
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    Release::Pacific.run(conf, "ceph", &args, Duration::from_secs(60))
}

/// Writes the record: one object, step by step, with what the cluster is.
pub fn record(conf: &str, out: &str) -> Result<()> {
    let conf = Path::new(conf);
    let version = Release::Pacific.run(conf, "ceph", &["versions", "-f", "json"], Duration::from_secs(60))?;
    let mut steps = Vec::new();
    for step in SCRIPT {
        let got = ask(conf, step)?;
        let mut row = Map::new();
        row.insert("args".into(), step.args.into());
        row.insert("code".into(), got.code.into());
        match parse(&got.stdout) {
            Some(value) if matches!(step.want, Want::Json | Want::JsonEqual) => row.insert("json".into(), value),
            _ => row.insert("text".into(), got.stdout.trim().into()),
        };
        if got.code != 0 || step.want == Want::Text {
            row.insert("stderr".into(), got.stderr.trim().into());
        }
        println!("{:>3}  {}", got.code, step.args);
        steps.push(Value::Object(row));
    }
    let provenance = "stock cluster (1 mon, 1 mgr, 1 OSD on memstore, cephx, no pool), client 16.2; made by `cargo xtask record-commands`";
    let record = json!({ "provenance": provenance, "versions": parse(&version.stdout), "steps": steps });
    std::fs::write(out, serde_json::to_string_pretty(&record)? + "\n").with_context(|| format!("writing {out}"))
}

fn parse(text: &str) -> Option<Value> {
    // `osd pool ls` and others put an empty line before the JSON.
    serde_json::from_str(text.trim()).ok()
}

/// What is wrong with our answer, a line each; none if it is as recorded.
pub fn differences(step: &Step, recorded: &Value, ours: &Output) -> Vec<String> {
    let mut wrong = Vec::new();
    let code = recorded["code"].as_i64().unwrap_or(0) as i32;
    if ours.code != code {
        wrong.push(format!("exit code {} where stock has {code}: {}", ours.code, ours.stderr.trim()));
        return wrong;
    }
    match step.want {
        Want::Code => {}
        Want::Text => {
            for (what, theirs, mine) in
                [("text", &recorded["text"], ours.stdout.trim()), ("stderr", &recorded["stderr"], ours.stderr.trim())]
            {
                if theirs.as_str().unwrap_or_default() != mine {
                    wrong.push(format!("{what} {mine:?} where stock has {theirs}"));
                }
            }
        }
        Want::Json | Want::JsonEqual => match (&recorded["json"], parse(&ours.stdout)) {
            (Value::Null, None) => {}
            (Value::Null, Some(_)) => {}
            (_, None) => wrong.push(format!("no JSON: {:?}", ours.stdout)),
            (theirs, Some(mine)) if step.want == Want::JsonEqual => {
                if *theirs != mine {
                    wrong.push(format!("{mine} where stock has {theirs}"));
                }
            }
            (theirs, Some(mine)) => same_shape("", theirs, &mine, step.loose, &mut wrong),
        },
    }
    wrong
}

fn kind(v: &Value) -> &'static str {
    match v {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Same keys, same types. Of arrays the first elements are compared, where both have one.
fn same_shape(path: &str, theirs: &Value, mine: &Value, loose: &[&str], wrong: &mut Vec<String>) {
    if kind(theirs) != kind(mine) {
        wrong.push(format!("{path}: {} where stock has {}", kind(mine), kind(theirs)));
        return;
    }
    if loose.iter().any(|l| matches(l, path)) {
        return;
    }
    let child = |key: &str| if path.is_empty() { key.to_string() } else { format!("{path}.{key}") };
    match (theirs, mine) {
        (Value::Object(t), Value::Object(m)) => {
            for (key, value) in t {
                match m.get(key) {
                    Some(ours) => same_shape(&child(key), value, ours, loose, wrong),
                    None if loose.iter().any(|l| matches(l, &child(key))) => {}
                    None => wrong.push(format!("{} is missing", child(key))),
                }
            }
            for key in m.keys().filter(|k| !t.contains_key(*k) && !loose.iter().any(|l| matches(l, &child(k)))) {
                wrong.push(format!("{} is not in stock's answer", child(key)));
            }
        }
        (Value::Array(t), Value::Array(m)) => {
            if let (Some(t), Some(m)) = (t.first(), m.first()) {
                same_shape(&child("0"), t, m, loose, wrong);
            }
        }
        _ => {}
    }
}

fn matches(pattern: &str, path: &str) -> bool {
    let (pattern, path): (Vec<&str>, Vec<&str>) = (pattern.split('.').collect(), path.split('.').collect());
    pattern.len() == path.len() && pattern.iter().zip(&path).all(|(p, q)| *p == "*" || p == q)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_types_are_compared_and_values_are_not() {
        let step = Step { args: "x", want: Want::Json, loose: &["c"] };
        let recorded = json!({ "code": 0, "json": { "a": 1, "b": [{ "k": "v" }], "c": { "machine": 1 } } });
        let ours = |text: &str| Output { code: 0, stdout: text.into(), stderr: String::new() };
        assert!(differences(&step, &recorded, &ours(r#"{"a":2,"b":[],"c":{}}"#)).is_empty());
        assert_eq!(differences(&step, &recorded, &ours(r#"{"a":"2","b":[{}],"c":{},"d":1}"#)).len(), 3);
        assert_eq!(differences(&step, &recorded, &Output { code: 22, stdout: String::new(), stderr: String::new() }).len(), 1);
    }
}
