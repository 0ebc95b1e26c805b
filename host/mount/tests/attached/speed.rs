//! Time from a stage to its usable device, beside the programs that an administrator attaches a disk with. It is printed, for a person; nothing is
//! asserted about it.

use std::time::{Duration, Instant};

/// Rounds of a default run, and of a thorough one.
const ROUNDS: [usize; 2] = [3, 20];

/// Times of the host and of the program, in turn.
#[derive(Default)]
pub(crate) struct Times {
    stage: Vec<Duration>,
    by_hand: Vec<Duration>,
}

pub(crate) fn rounds() -> usize {
    ROUNDS[usize::from(crate::is_thorough())]
}

impl Times {
    pub(crate) async fn stage(&mut self, stage: impl Future<Output = ()>) {
        let begin = Instant::now();
        stage.await;
        self.stage.push(begin.elapsed());
    }

    pub(crate) fn by_hand(&mut self, attach: impl FnOnce()) {
        let begin = Instant::now();
        attach();
        self.by_hand.push(begin.elapsed());
    }

    pub(crate) fn print(self, program: &str) {
        let rounds = self.stage.len();
        let [stage, by_hand] = [self.stage, self.by_hand].map(median);
        let ratio = stage.as_secs_f64() / by_hand.as_secs_f64();
        println!(
            "stage of a raw volume {stage:.0?}, {program} {by_hand:.0?}: {ratio:.2} (medians of {rounds} in turn)"
        );
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
