use super::*;
use serde_json::json;

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(String::from).collect()
}

/// What our own monitor describes, for its clients or for a program that speaks to it alone.
fn ours(tell: bool) -> Vec<Description> {
    let registry = mon_core::cmd::Registry::default();
    let mut all = parse(registry.describe(false, tell, &[], types::features::SUPPORTED).to_string().as_bytes()).unwrap();
    assert!(all.len() > 10);
    all.retain(|c| !c.parts.is_empty());
    all
}

/// The request that a line means.
fn request(all: &[Description], line: &str) -> Value {
    match choose(all, &words(line)) {
        Ok((_, request)) => Value::Object(request),
        Err(e) => json!(e.to_string()),
    }
}

#[test]
fn lines_become_requests() {
    let all = ours(false);
    for (line, wanted) in [
        ("status", json!({"prefix": "status"})),
        ("osd tree", json!({"prefix": "osd tree"})),
        ("osd pool create p 8", json!({"prefix": "osd pool create", "pool": "p", "pg_num": 8})),
        ("osd pool create p --size 3", json!({"prefix": "osd pool create", "pool": "p", "size": 3})),
        ("osd pool create p --size=3 8", json!({"prefix": "osd pool create", "pool": "p", "size": 3, "pg_num": 8})),
        ("osd pool set p size 2", json!({"prefix": "osd pool set", "pool": "p", "var": "size", "val": "2"})),
        ("osd find osd.1", json!({"prefix": "osd find", "id": 1})),
        ("osd out 0 1", json!({"prefix": "osd out", "ids": ["0", "1"]})),
        ("osd reweight 0 0.5", json!({"prefix": "osd reweight", "id": 0, "weight": 0.5})),
        ("health detail", json!({"prefix": "health", "detail": "detail"})),
        ("log a b", json!({"prefix": "log", "logtext": ["a", "b"]})),
        ("config set osd debug_osd 5", json!({"prefix": "config set", "who": "osd", "name": "debug_osd", "value": "5"})),
        (
            "osd pool rm p p --yes-i-really-really-mean-it",
            json!({"prefix": "osd pool rm", "yes_i_really_really_mean_it": true, "pool": "p", "pool2": "p"}),
        ),
        (
            "auth get-or-create client.x mon 'allow",
            json!({"prefix": "auth get-or-create", "entity": "client.x", "caps": ["mon", "'allow"]}),
        ),
    ] {
        assert_eq!(request(&all, line), wanted, "{line}");
    }
}

#[test]
fn what_is_no_command_is_told_with_what_comes_closest() {
    let all = ours(false);
    let say = |line: &str| request(&all, line).as_str().expect("it is no command").to_string();
    assert!(say("nosuchcommand").starts_with("no valid command found; 10 closest matches:\n"));
    let text = say("osd pool create");
    assert!(text.starts_with("Invalid command: missing required parameter pool(") && text.contains("\nosd pool create <pool> "), "{text}");
    let text = say("osd reweight 0 half");
    assert!(text.starts_with("Invalid command: half doesn't represent a float\nosd reweight <id|osd.id> <weight:float> :  "), "{text}");
    let text = say("status now");
    assert!(text.starts_with("Invalid command: unused arguments: ['now']"), "{text}");
    let text = say("osd tree --nosuch");
    assert!(text.contains("--nosuch"), "{text}");
}

/// Each row of our own table, with a value for each parameter, is that row's request again.
#[test]
fn every_command_of_our_own_is_understood() {
    for tell in [false, true] {
        let all = ours(tell);
        for command in &all {
            let mut line = Vec::new();
            for part in &command.parts {
                match part {
                    Part::Word(word) => line.push(word.clone()),
                    Part::Param(p) if p.required || p.positional => {
                        let value = match &p.kind {
                            Kind::Int(range) => range.start().max(&1).min(range.end()).to_string(),
                            Kind::Float(range) => range.start().max(0.5).min(*range.end()).to_string(),
                            Kind::Choices(all) => all[0].clone(),
                            Kind::Bool => "true".into(),
                            Kind::PgId => "1.0".into(),
                            Kind::Name | Kind::OsdName => "osd.1".into(),
                            Kind::Addr => "127.0.0.1:0/1".into(),
                            Kind::Uuid => "f3dfb6a5-6e3f-4b9d-8f3e-0d2f4a1b7c11".into(),
                            Kind::Fragment => "0x1/1".into(),
                            Kind::Text(_) | Kind::Any => "a".into(),
                        };
                        line.push(format!("--{}={value}", p.name));
                    }
                    Part::Param(_) => {}
                }
            }
            let request = command.fit(&line).unwrap_or_else(|e| panic!("{line:?}: {e:?}"));
            assert_eq!(request["prefix"], json!(command.prefix()));
            let (found, _) = choose(&all, &line).unwrap_or_else(|e| panic!("{line:?}: {e}"));
            assert!(found.prefix().starts_with(&command.prefix()), "{line:?} is taken for {}", found.usage());
        }
        let help = table(&all, "", 100);
        assert!(help.lines().count() >= all.len() / 2, "{help}");
    }
}

/// Daemons of several releases write booleans as texts; what an OSD describes has a parameter before a word.
#[test]
fn descriptions_of_other_daemons_are_read() {
    let all = parse(
        br#"{"cmd000": {"sig": ["pg", {"name": "pgid", "type": "CephPgid"}, {"name": "cmd", "type": "CephChoices", "strings": "query"}], "help": "show"},
             "cmd001": {"sig": ["config", "set", {"name": "var", "type": "CephString"}, {"n": "N", "name": "val", "type": "CephString"}], "help": ""},
             "cmd002": {"sig": ["injectargs", {"n": "N", "name": "injected_args", "req": "false", "type": "CephString"}], "help": ""},
             "cmd003": {"sig": ["old"], "help": "", "flags": 2},
             "cmd004": {"sig": [7], "help": "of a form that we don't know"}}"#,
    )
    .unwrap();
    assert_eq!(all.len(), 4);
    assert_eq!(request(&all, "pg 1.2 query"), json!({"prefix": "pg", "pgid": "1.2", "cmd": "query"}));
    assert_eq!(request(&all, "config set a b"), json!({"prefix": "config set", "var": "a", "val": ["b"]}));
    assert_eq!(request(&all, "injectargs --debug-osd 5"), json!({"prefix": "injectargs", "injected_args": ["--debug-osd", "5"]}));
    assert!(choose(&all, &words("old")).is_err(), "obsolete commands are not offered");
}
