//! Commands as text: one line each, and the table of `--help`.

use super::{Description, Kind, Param, Part, flag};

impl Param {
    fn usage(&self) -> String {
        let text = match &self.kind {
            Kind::Bool => format!("--{}", self.name.replace('_', "-")),
            Kind::Choices(all) => all.join("|"),
            Kind::OsdName => "<id|osd.id>".into(),
            Kind::Name => "<type.id>".into(),
            Kind::Int(_) => format!("<{}:int>", self.name),
            Kind::Float(_) => format!("<{}:float>", self.name),
            _ => format!("<{}>", self.name),
        };
        let text = if self.positional || self.kind == Kind::Bool { text } else { format!("--{} {text}", self.name) };
        let text = if self.many { format!("{text}...") } else { text };
        if self.required { text } else { format!("[{text}]") }
    }
}

impl Description {
    /// `osd pool create <pool> [<pg_num:int>]`.
    pub fn usage(&self) -> String {
        let parts = self.parts.iter().map(|part| match part {
            Part::Word(word) => word.clone(),
            Part::Param(param) => param.usage(),
        });
        parts.collect::<Vec<_>>().join(" ")
    }
}

/// Cuts a text into lines of at most `width` columns, further ones indented by one.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in text.split(' ').filter(|w| !w.is_empty()) {
        if !line.trim().is_empty() && line.chars().count() + 1 + word.chars().count() > width {
            lines.push(std::mem::replace(&mut line, " ".into()));
        }
        if !line.trim().is_empty() {
            line.push(' ');
        }
        line += word;
    }
    lines.push(line);
    lines
}

/// All commands whose usage begins with `start`, sorted, in two columns that fill `width`.
pub fn table(all: &[Description], start: &str, width: usize) -> String {
    let shown = |c: &&Description| !c.help.is_empty() && !c.has(flag::OBSOLETE | flag::DEPRECATED | flag::HIDDEN);
    let mut rows: Vec<(String, &str)> = all.iter().filter(shown).map(|c| (c.usage(), c.help.as_str())).collect();
    rows.retain(|(usage, _)| usage.starts_with(start));
    rows.sort();
    let half = (width.max(40) - 1) / 2;
    let mut out = String::new();
    for (usage, help) in rows {
        let (left, right) = (wrap(&usage, half), wrap(help, half));
        for i in 0..left.len().max(right.len()) {
            let cell = |lines: &[String]| lines.get(i).cloned().unwrap_or_default();
            out += format!("{:<half$} {}", cell(&left), cell(&right)).trim_end();
            out.push('\n');
        }
    }
    out
}
