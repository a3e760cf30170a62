//! Started by a shell that allows few open files, the program takes as many as it may have: each client is one.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

#[test]
fn few_files_allowed_are_no_bound_on_clients() {
    let dir = std::env::temp_dir().join(format!("humboldt-files-limit-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    let line = format!("ulimit -S -n 200 && exec {} up --dir {} --port 0 --store mem", env!("CARGO_BIN_EXE_humboldt"), dir.display());
    let mut up = Command::new("sh").args(["-c", &line]).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("a shell");
    let mut said = String::new();
    BufReader::new(up.stdout.take().expect("it is piped")).read_line(&mut said).expect("a line");
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", up.id()));
    let _ = up.kill();
    let _ = up.wait();
    std::fs::remove_dir_all(&dir).expect("its folder");
    assert!(said.contains("ready"), "{said:?}");
    let limits = limits.expect("it runs");
    let row = limits.lines().find_map(|l| l.strip_prefix("Max open files")).expect("a row");
    let numbers: Vec<&str> = row.split_whitespace().collect();
    assert!(numbers[0] == numbers[1] && numbers[0] != "200", "{row}");
}
