//! Whether words are a given command, and with which arguments.
//!
//! Literal words come first and in order. Arguments are given by place, or by name as `--name value`, `--name=value` or, for a boolean, `--name`;
//! `-` and `_` in names are the same.

use super::{Description, Kind, Param, Part};
use serde_json::{Map, Value, json};

/// Words that confirm something: older daemons take them by place although they look like names.
const CONFIRM: [&str; 4] =
    ["--yes-i-really-mean-it", "--yes-i-really-really-mean-it", "--yes-i-really-really-mean-it-not-faking", "--force"];

/// Why words are not a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    /// A literal word differs.
    Other,
    /// The words end before its literal words or required parameters are given.
    TooFew,
    /// A required parameter is missing: which.
    Missing(String),
    /// It is this command, but for one of its arguments.
    Wrong(String),
}

/// See [`Why`]; `matched` parts did fit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Misfit {
    pub matched: usize,
    pub why: Why,
}

impl Description {
    /// The request that these words mean, if they are this command.
    pub fn fit(&self, words: &[String]) -> Result<Map<String, Value>, Misfit> {
        let mut fitting =
            Fitting { matched: 0, out: Map::new(), rest: words.to_vec(), injects: words.first().is_some_and(|w| w == "injectargs") };
        fitting.out.insert("prefix".into(), json!(self.prefix()));
        fitting.go(self).map_err(|why| Misfit { matched: fitting.matched, why })?;
        Ok(fitting.out)
    }
}

/// Words on their way into a request.
struct Fitting {
    matched: usize,
    out: Map<String, Value>,
    rest: Vec<String>,
    /// What follows is options for a daemon, not for us.
    injects: bool,
}

impl Fitting {
    fn go(&mut self, command: &Description) -> Result<(), Why> {
        // Names are looked up behind the first literal word only: options before it are another's.
        let lead = command.parts.iter().take_while(|p| matches!(p, Part::Word(_))).count();
        for part in &command.parts[..lead] {
            self.literal(part)?;
        }
        if !self.injects {
            self.named(command)?;
        }
        let mut refused = None;
        for part in &command.parts[lead..] {
            match part {
                Part::Word(_) => self.literal(part)?,
                Part::Param(p) if self.out.contains_key(&p.name) => self.matched += 1,
                Part::Param(p) if p.positional => self.by_place(p, &mut refused)?,
                Part::Param(p) if p.required => return Err(Why::Missing(missing(p))),
                Part::Param(_) => {}
            }
        }
        if self.rest.is_empty() {
            return Ok(());
        }
        let words: Vec<String> = self.rest.iter().map(|w| format!("'{w}'")).collect();
        Err(Why::Wrong(refused.unwrap_or_else(|| format!("unused arguments: [{}]", words.join(", ")))))
    }

    fn literal(&mut self, part: &Part) -> Result<(), Why> {
        let Part::Word(word) = part else { return Ok(()) };
        match self.rest.first() {
            Some(given) if given == word => {
                self.rest.remove(0);
                self.matched += 1;
                Ok(())
            }
            Some(_) => Err(Why::Other),
            None => Err(Why::TooFew),
        }
    }

    /// Takes what is given by name out of the words.
    fn named(&mut self, command: &Description) -> Result<(), Why> {
        let mut kept = Vec::new();
        let mut words = std::mem::take(&mut self.rest).into_iter();
        while let Some(word) = words.next() {
            let Some(text) = word.strip_prefix("--").filter(|t| !t.is_empty()) else {
                kept.push(word);
                continue;
            };
            let (key, given) = text.split_once('=').map_or((text, None), |(k, v)| (k, Some(v.to_string())));
            let Some(param) = command.params().find(|p| p.name.replace('-', "_") == key.replace('-', "_")) else {
                kept.push(word);
                continue;
            };
            let value = match given {
                Some(value) => value,
                None if param.kind == Kind::Bool => "true".into(),
                // A choice that is its own name: `--yes-i-really-mean-it`.
                None if param.kind.value(&word).is_ok() && matches!(param.kind, Kind::Choices(_)) => word.clone(),
                None => match words.next() {
                    Some(value) => value,
                    None => return Err(Why::Missing(missing(param))),
                },
            };
            self.put(param, &value, true).map_err(Why::Wrong)?;
        }
        self.rest = kept;
        Ok(())
    }

    /// Takes the next words for a parameter. What an optional one does not take is kept for the next, with the reason in `refused`.
    fn by_place(&mut self, param: &Param, refused: &mut Option<String>) -> Result<(), Why> {
        let mut taken = 0;
        while let Some(word) = self.rest.first().cloned() {
            let looks_named = word.starts_with("--") && !self.injects;
            if looks_named && !matches!(param.kind, Kind::Choices(_)) && !CONFIRM.contains(&word.as_str()) {
                return Err(Why::Wrong(format!("Unexpected argument '{word}'")));
            }
            match self.put(param, &word, false) {
                Ok(()) => {
                    self.rest.remove(0);
                    self.matched += 1;
                    taken += 1;
                    *refused = None;
                }
                Err(why) if param.required && taken == 0 => return Err(Why::Wrong(why)),
                Err(why) => {
                    *refused = Some(format!("{word} not valid: {why}"));
                    break;
                }
            }
            if !param.many {
                break;
            }
        }
        if taken == 0 && param.required {
            return Err(Why::Missing(missing(param)));
        }
        Ok(())
    }

    fn put(&mut self, param: &Param, word: &str, by_name: bool) -> Result<(), String> {
        if !param.many {
            self.out.insert(param.name.clone(), param.kind.value(word)?);
            return Ok(());
        }
        // Several at once with commas between, but for texts, which may have commas of their own.
        let apart = by_name || !matches!(param.kind, Kind::Text(_));
        let values: Vec<Value> = match apart {
            true => word.split(',').map(|w| param.kind.value(w)).collect::<Result<_, _>>()?,
            false => vec![param.kind.value(word)?],
        };
        let list = self.out.entry(param.name.clone()).or_insert_with(|| json!([]));
        list.as_array_mut().expect("it was made as one").extend(values);
        Ok(())
    }
}

fn missing(param: &Param) -> String {
    format!("missing required parameter {}({}){}", param.name, param.kind.shown(), if param.many { "..." } else { "" })
}
