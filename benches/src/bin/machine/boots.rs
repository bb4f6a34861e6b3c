//! Complete boots: to the shell, a one-line script, and power-off, with 0, 10 and 1,000 armed probes that are not hit.

use crate::contest::{self, Contest, Contestant, Prepared, run};
use crate::{Options, guest};
use std::process::Command;
use trapline_benches::peer::Peer;
use trapline_benches::user_time::median;

const SAID: &str = "the shell is there";
/// Numbers of armed probes.
const ARMED: [usize; 3] = [0, 10, 1_000];

/// The table's headings.
pub fn headings(peers: &[Peer]) -> Vec<String> {
    let behind = ["10 armed, user s", "1,000 armed, user s", "guest s", "instructions, millions", "millions a second"];
    let front = ["kernel", "user s"].map(String::from).into_iter().chain(contest::peer_headings(peers));
    front.chain(behind.map(String::from)).collect()
}

/// The results for one kernel, in seconds of user time.
pub struct Figures {
    kernel: &'static str,
    /// The results of trapline with 0, 10 and 1,000 armed probes.
    ours: Vec<f64>,
    /// The results of the QEMUs, in the order of the headings.
    peers: Vec<Option<f64>>,
    guest_seconds: f64,
    instructions: f64,
}

impl Figures {
    pub fn cells(&self) -> Vec<String> {
        let seconds = |value: f64| format!("{value:.2}");
        let mut cells = vec![self.kernel.to_string(), seconds(self.ours[0])];
        cells.extend(contest::peer_cells(self.ours[0], &self.peers));
        cells.extend(self.ours[1..].iter().map(|value| seconds(*value)));
        cells.push(seconds(self.guest_seconds));
        cells.push(format!("{:.0}", self.instructions / 1e6));
        cells.push(format!("{:.0}", self.instructions / 1e6 / self.ours[0]));
        cells
    }

    pub fn json(&self, peers: &[Peer]) -> String {
        let ours: Vec<String> =
            ARMED.iter().zip(&self.ours).map(|(armed, time)| format!("\"user_s_{armed}_armed\":{time:.3}")).collect();
        let peers = contest::peer_json(peers, &self.peers);
        format!(
            "{{\"kernel\":\"{}\",{},\"peers_user_s\":{peers},\"guest_s\":{:.6},\"instructions\":{:.0}}}",
            self.kernel,
            ours.join(","),
            self.guest_seconds,
            self.instructions
        )
    }
}

/// A boot to measure: a contestant and its number of armed probes.
struct Turn {
    who: Contestant,
    armed: usize,
    times: Vec<f64>,
}

/// Measures all boots of a kernel, taking turns.
pub fn measure(contest: &Contest, options: &Options) -> Result<Figures, String> {
    let prepared = contest.prepare(&format!("echo {SAID}\n"))?;
    let mut turns = Vec::new();
    let mut program = None;
    for who in contest.contestants(None, &options.peers)? {
        match &who {
            Contestant::Build(build) => {
                program = Some(build.clone());
                turns.extend(ARMED.map(|armed| Turn { who: Contestant::Build(build.clone()), armed, times: Vec::new() }));
            }
            Contestant::Peer(_) => turns.push(Turn { who, armed: 0, times: Vec::new() }),
        }
    }
    let (count, program) = (turns.len(), program.ok_or("no contestant boots it")?);
    for round in 0..options.rounds {
        // Rotate the order, so that no contestant always follows the same other one.
        for number in 0..count {
            let turn = &mut turns[(round + number) % count];
            let time = boot(contest, &prepared, turn)?;
            turn.times.push(time);
        }
    }
    let (_, counted) = run(Command::new(program).arg(guest::COUNT).arg(&prepared.folder))?;
    let mut numbers = counted.split_whitespace().filter_map(|word| word.parse().ok());
    let (Some(guest_seconds), Some(instructions)) = (numbers.next(), numbers.next()) else {
        return Err("nothing was counted".into());
    };
    let of = |peer: &Peer| turns.iter().find(|turn| turn.who.is(peer)).map(|turn| median(turn.times.iter().copied()));
    let peers = options.peers.iter().map(of).collect();
    let ours = turns.iter().take(ARMED.len()).map(|turn| median(turn.times.iter().copied())).collect();
    Ok(Figures { kernel: contest.kernel, ours, peers, guest_seconds, instructions })
}

fn boot(contest: &Contest, prepared: &Prepared, turn: &Turn) -> Result<f64, String> {
    match &turn.who {
        Contestant::Build(program) => {
            let mut command = Command::new(program);
            Ok(run(command.arg(guest::BOOT).arg(&prepared.folder).arg(turn.armed.to_string()))?.0)
        }
        Contestant::Peer(peer) => match run(&mut contest.under(peer, prepared))? {
            (time, said) if said.contains(SAID) => Ok(time),
            _ => Err(format!("under {} it did not get to the shell", peer.name())),
        },
    }
}
