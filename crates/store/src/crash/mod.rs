//! The crash-state judge: a store is driven by chance on disks that record, and at every moment of its life the power is cut in many ways. What comes
//! up again must be the state after some number of transactions, in order, of which no acknowledged one is missing, and pass the store's own check.
//!
//! ```text
//!   Life::new(seed)   transactions by chance on recording disks; what the store has after each, by the model
//!        │                 (every few lives, the store itself came up from a crash of the life before)
//!   each moment       certain writes, and a choice for each open one: lost, landed, torn at 4 KiB or 512 B
//!        │
//!   check()           open it: which transaction does it end with? is that allowed? is everything as the model has it? its own check
//!        │
//!   go_on()           for some: more transactions, restart, check; or crash while it comes up
//! ```
//! A durable store is a [`Subject`] and calls these functions from its tests; nothing here knows a layout. Its [`Setting`]s say what kinds of life
//! there are: space that is scarce, a device that lags behind, a log that is full; [`Kind`] is what is done in them. [`killed`] cuts the power after a
//! process was killed and another came up; [`damage`] changes blocks of a closed store; [`faults`] makes the disks fail at each operation in turn.
//! [`bugs`] breaks one promise of the store at a time and demands that all this notices.
//!
//! A failure names seed, moment and state: [`run_seed`] with that seed shows it again.
//!
//! Only with the feature `crash`, which tests of durable stores ask for. Absent: any store, any layout, real devices.

pub mod bugs;
mod campaign;
mod check;
pub mod damage;
pub mod faults;
mod groups;
pub mod killed;
mod life;
mod seen;
mod setting;
mod subject;
mod work;

pub use campaign::run_states;
pub use setting::Setting;
pub use subject::Subject;
pub use work::{CHURN_OBJECTS, Kind};

use base::Rng;
use check::check;
use disk::{CrashStates, Event, Tear};
use life::Life;

/// What a run over seeds has seen.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tally {
    pub states: u64,
    /// Of them, those in which writes were open.
    pub open: u64,
    /// Of them, those from which the store went on.
    pub went_on: u64,
}

/// All states that are looked at of one seed's life; an error tells the first that is wrong.
pub fn run_seed<S: Subject>(seed: u64) -> Result<Tally, String> {
    let mut tally = Tally::default();
    let setting = S::setting(seed);
    let mut life = Life::<S>::new(seed);
    let mut rng = Rng::new(seed ^ 0x5eed);
    for generation in 0..2 {
        let (history, end) = life.run(&mut rng, &[]);
        end.map_err(|e| format!("seed {seed}, generation {generation}: {e}"))?;
        let mut states = CrashStates::new(&history.recording);
        let mut next = None;
        loop {
            let event = states.step();
            // A mark changes nothing on the disks; what it promises is in force at the next moment.
            if let Some(Event::Note(mark)) = event {
                history.note(mark);
                continue;
            }
            let samples = if states.open_writes() == 0 { 1 } else { 4 };
            for sample in 0..samples {
                let tear = [Tear::Never, Tear::Blocks, Tear::Sectors, Tear::Bytes][rng.below(4) as usize];
                let disks = states.state(&mut rng, tear);
                let at = || format!("seed {seed}, generation {generation}, moment {}, state {sample} ({tear:?})", states.at());
                tally.states += 1;
                tally.open += u64::from(states.open_writes() > 0);
                let goes_on = rng.chance(1, setting.go_on_every);
                tally.went_on += u64::from(goes_on);
                let keep = goes_on.then(|| disks.copy());
                let steps = check::<S>(&disks, &history, &mut rng, false).map_err(|e| format!("{}: {e}", at()))?;
                if let Some(disks) = keep {
                    life::go_on::<S>(&disks, &setting, &history.steps[steps], &mut rng).map_err(|e| format!("{}, going on: {e}", at()))?;
                    next = Some((states.at(), steps));
                }
            }
            if event.is_none() {
                break;
            }
        }
        // The next generation is what came up from a moment late in this one.
        let Some((moment, _)) = next else { break };
        let mut states = CrashStates::new(&history.recording);
        while states.at() < moment {
            states.step();
        }
        let disks = states.state(&mut rng, Tear::Sectors);
        life =
            Life::from_crash(seed, generation, &disks, &history).map_err(|e| format!("seed {seed}, generation {generation}, next: {e}"))?;
    }
    Ok(tally)
}
