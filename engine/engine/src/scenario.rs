//! What an iteration does: which scenario it takes, which step comes after which, and when. Pure functions of the plan.

use crate::pace::ThinkPace;
use crate::pieces::Asker;
use crate::rng::{Draws, Stream};
use crate::share::GroupSpec;

/// What comes after a step has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Another step, due then.
    Step { step: u16, due_ns: i64 },
    /// Its next step would be due after the load's end: the user thinks until that end.
    Cut { at_ns: i64 },
    /// Nothing: the iteration is over.
    End,
}

#[derive(Clone, Copy, Debug)]
struct Scenario {
    /// The weights of all scenarios up to this one.
    weight_until: u64,
    first: u16,
    last: u16,
}

/// The scenarios of a group; steps are numbered through all of them.
#[derive(Clone, Debug)]
pub struct Course {
    scenarios: Vec<Scenario>,
    steps: Vec<(usize, ThinkPace)>,
    choice: Draws,
    /// The step that renews what it takes, and after how long.
    renewal: Option<(u16, i64)>,
    open: bool,
    stop_ns: i64,
}

/// The name under which a step draws its numbers: a request alone draws the group's own.
pub fn step_key(group: &str, step: usize) -> String {
    if step == 0 {
        group.to_owned()
    } else {
        format!("{group}/step {step}")
    }
}

impl Course {
    /// The course of a checked group whose load ends at `stop_ns`.
    pub fn new(seed: u64, group: &GroupSpec, stop_ns: i64) -> Self {
        let (mut scenarios, mut steps) = (Vec::<Scenario>::new(), Vec::new());
        let mut renewal = None;
        for (number, spec) in group.scenarios.iter().enumerate() {
            let before = scenarios.last().map_or(0, |former| former.weight_until);
            let first = steps.len();
            renewal = spec.renew_ns.map(|after_ns| (first as u16, after_ns));
            scenarios.push(Scenario {
                weight_until: before + spec.weight,
                first: first as u16,
                last: (first + spec.steps.len() - 1) as u16,
            });
            for (step, at) in spec.steps.iter().zip(first..) {
                let name = format!("{}/pause {at}", group.name);
                steps.push((number, ThinkPace::new(seed, &name, step.think_time)));
            }
        }
        Course {
            scenarios,
            steps,
            renewal,
            choice: Draws::new(seed, &group.name, Stream::Scenario),
            open: group.executor.is_open(),
            stop_ns,
        }
    }

    /// How many steps all scenarios have.
    pub fn steps(&self) -> usize {
        self.steps.len()
    }

    /// Whether an iteration is one request.
    pub fn is_plain(&self) -> bool {
        self.steps.len() == 1
    }

    /// Whether a step is the one that renews.
    pub fn renews(&self, step: u16) -> bool {
        self.renewal.is_some_and(|(at, _)| at == step)
    }

    /// The step that an iteration begins with so long after the last renewal; `refused`: an answer was 401 since.
    pub fn renewal(&self, age_ns: i64, refused: bool) -> Option<u16> {
        let (step, after_ns) = self.renewal?;
        (refused || age_ns >= after_ns).then_some(step)
    }

    /// (unit, step) of a draw: an arrival has its index alone.
    fn numbers(&self, asker: Asker) -> (u64, u64) {
        if self.open {
            (asker.seq, 0)
        } else {
            (asker.vu, asker.seq)
        }
    }

    /// The first step of iteration `seq` of VU `vu` (open: of arrival `seq`): by weight, f(seed, group, VU, iteration).
    #[inline]
    pub fn first(&self, asker: Asker) -> u16 {
        let [.., last] = self.scenarios.as_slice() else {
            return 0;
        };
        if self.scenarios.len() == 1 {
            return 0;
        }
        let (unit, step) = self.numbers(asker);
        let drawn = self.choice.below(unit, step, last.weight_until);
        let at = self
            .scenarios
            .partition_point(|scenario| scenario.weight_until <= drawn);
        self.scenarios[at].first
    }

    /// What comes after `step` has ended at `done_ns`. A step that failed ends its iteration: what it should have brought is missing.
    pub fn after(&self, step: u16, asker: Asker, ok: bool, done_ns: i64) -> Next {
        let (number, pause) = &self.steps[usize::from(step)];
        let over = done_ns >= self.stop_ns;
        if ok && !over && self.renews(step) {
            return Next::Step {
                step: self.first(asker),
                due_ns: done_ns,
            };
        }
        if !ok || over || self.scenarios[*number].last == step {
            return Next::End;
        }
        let (unit, draw) = self.numbers(asker);
        let due_ns = done_ns.saturating_add(pause.after_ns(unit, draw));
        if due_ns < self.stop_ns {
            Next::Step {
                step: step + 1,
                due_ns,
            }
        } else {
            Next::Cut {
                at_ns: self.stop_ns,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::share::{testing::group, ScenarioSpec};

    const CLOSED: &str = r#"{"kind": "constant-vus", "vus": 2}"#;

    fn course(weights: &[(u64, usize)], executor: &str, think: &str) -> Course {
        let mut spec = group(executor);
        let mut step = spec.scenarios[0].steps[0].clone();
        step.think_time = serde_json::from_str(think).unwrap();
        spec.scenarios = weights
            .iter()
            .map(|(weight, steps)| ScenarioSpec {
                weight: *weight,
                renew_ns: None,
                steps: vec![step.clone(); *steps],
            })
            .collect();
        Course::new(7, &spec, 1_000)
    }

    fn at(vu: u64, seq: u64) -> Asker {
        Asker { vu, seq }
    }

    #[test]
    fn steps_follow_each_other_after_their_pause() {
        let two = course(&[(1, 2)], CLOSED, r#"{"constant_ns": 30}"#);
        let next = |step, ok, done_ns| two.after(step, at(0, 0), ok, done_ns);
        let second = Next::Step {
            step: 1,
            due_ns: 130,
        };
        assert_eq!((two.first(at(1, 5)), next(0, true, 100)), (0, second));
        assert_eq!(
            (next(1, true, 100), next(0, false, 100)),
            (Next::End, Next::End)
        );
        assert_eq!(next(0, true, 970), Next::Cut { at_ns: 1_000 });
        assert_eq!(next(0, true, 1_000), Next::End);
    }

    #[test]
    fn weights_are_kept_and_belong_to_the_iteration() {
        let mixed = course(&[(3, 2), (1, 1)], CLOSED, r#"{"constant_ns": 0}"#);
        let firsts: Vec<u16> = (0..4_000).map(|seq| mixed.first(at(1, seq))).collect();
        let heavy = firsts.iter().filter(|first| **first == 0).count();
        assert!((2_850..3_150).contains(&heavy), "{heavy}");
        assert!(firsts.iter().all(|first| [0, 2].contains(first)));
        assert_ne!(
            firsts,
            (0..4_000)
                .map(|seq| mixed.first(at(2, seq)))
                .collect::<Vec<_>>()
        );
        let open = course(
            &[(1, 1), (1, 1)],
            r#"{"kind": "constant-arrival-rate", "rate_rps": 1.0, "max_vus": 1}"#,
            r#"{"constant_ns": 0}"#,
        );
        assert!((0..50).all(|seq| open.first(at(3, seq)) == open.first(at(9, seq))));
    }
}
