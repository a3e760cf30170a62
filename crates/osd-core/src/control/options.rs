//! Options as they are in force: what the monitors, a file or an operator set, and what a change is told to.

use super::Control;
use crate::answer::{Answer, ok, pretty};
use crate::config::{Config, Source};
use crate::control::blackhole::Swallowed;
use crate::event::{Effect, Level};
use crate::joint::ToShard;
use crate::shared::EventCx;
use base::Budget;
use serde_json::json;
use std::collections::BTreeMap;
use std::rc::Rc;
use types::errno::{EINVAL, ENOENT};

impl Control {
    /// What clients may have under way: its bounds follow the options from now on.
    pub fn set_budget(&mut self, budget: Rc<Budget>) {
        self.budget = budget;
        self.options_changed();
    }
    /// Bounds that others look at.
    pub fn reload_limits(&self) {
        let int = |name| self.config.int(name);
        self.budget.set_limits(int("osd_client_message_size_cap"), int("osd_client_message_cap"));
        self.crumb.set_limits(int("osd_op_thread_timeout") * 1000, int("osd_op_thread_suicide_timeout") * 1000);
    }
    fn options_changed(&mut self) {
        self.reload_limits();
        self.swallowed = Swallowed::of(&self.config);
        self.to_shard.push(ToShard::Config(self.config.clone()));
    }
    fn change(&mut self) -> &mut Config {
        Rc::make_mut(&mut self.config)
    }

    /// All options that the monitors have for this OSD.
    pub fn mon_config(&mut self, config: &BTreeMap<String, String>) {
        self.change().clear(Source::Mon);
        for (name, value) in config {
            self.change().set(name, value, Source::Mon);
        }
        self.options_changed();
    }
    pub fn configure(&mut self, name: &str, value: &str, source: Source, cx: &mut EventCx<'_>) {
        if self.change().set(name, value, source) {
            self.options_changed();
        } else {
            cx.out.push(Effect::Log { level: Level::Warn, text: format!("no option {name} or no value for it: {value}") });
        }
    }

    /// `config set`.
    pub fn config_set(&mut self, name: &str, value: &str) -> Answer {
        if !Config::knows(name) {
            return (ENOENT, format!("error setting '{name}' to '{value}': (2) No such file or directory"), Vec::new());
        }
        if !self.change().set(name, value, Source::Override) {
            return (EINVAL, format!("error setting '{name}' to '{value}': (22) Invalid argument"), Vec::new());
        }
        self.options_changed();
        ok(json!({ "success": format!("{name} = '{}' ", self.config.get(name).unwrap_or_default()) }))
    }
    /// `config unset`.
    pub fn config_unset(&mut self, name: &str) -> Answer {
        if !Config::knows(name) {
            return (ENOENT, format!("error unsetting '{name}': (2) No such file or directory"), Vec::new());
        }
        self.change().unset(name, Source::Override);
        self.options_changed();
        ok(json!({}))
    }
    /// `injectargs`.
    pub fn inject_options(&mut self, args: &str) -> Answer {
        match options::inject(args) {
            Ok(settings) => {
                let mut said = String::new();
                for (name, value) in settings {
                    self.change().set(&name, &value, Source::Override);
                    said += &format!("{name} = '{value}' ");
                }
                self.options_changed();
                (0, said, pretty(&json!({})))
            }
            Err(why) => (EINVAL, why, Vec::new()),
        }
    }
    /// `config diff get`.
    pub fn config_diff_get(&self, name: &str) -> Answer {
        let one = self.config.diff()["diff"].get(name).cloned();
        ok(json!({ "diff": one.map_or(json!({}), |v| json!({ name: v })) }))
    }
    /// `config get`.
    pub fn config_get(&self, name: &str) -> Answer {
        match self.config.get(name) {
            Some(value) => ok(json!({ name: value })),
            None => (ENOENT, format!("error getting '{name}': (2) No such file or directory"), Vec::new()),
        }
    }
}
