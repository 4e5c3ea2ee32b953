//! `bench`: starts backends, a bare proxy and the shipped gateway, measures them in turn, and prints one table.

mod change;
mod dimensions;
mod full;
mod http;
mod in_process;
mod load;
mod memory;
mod outside;
mod policies;
mod process;
mod programs;
mod rows;
mod start;
mod table;
mod test_bed;
mod tokens;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use tokio::signal::ctrl_c;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;

use self::programs::Programs;
use self::rows::{Kind, ROWS, Row, Stack};
use self::table::Measurement;
use self::test_bed::TestBed;
use crate::{BoxError, Generation};

/// Compares vmcp with a bare reverse proxy.
#[derive(Debug, Parser)]
#[command(name = "bench")]
struct Args {
    /// Path of the gateway; by default, the package vmcp is built in this program's own profile.
    #[arg(long, value_name = "PATH")]
    vmcp: Option<PathBuf>,
    /// Use the three tools beside this program without building them.
    #[arg(long)]
    no_build: bool,
    /// Send a few requests per row: checks correctness only, the figures are not meaningful.
    #[arg(long)]
    smoke: bool,
    /// Number of requests per row with load, in place of the row's own.
    #[arg(long, value_name = "COUNT")]
    requests: Option<u64>,
    /// Repetitions of each row on each target; the table shows medians.
    #[arg(long, default_value_t = 5)]
    repetitions: usize,
    /// Only rows whose names begin with this prefix. Repeatable.
    #[arg(long, value_name = "NAME")]
    profile_row: Vec<String>,
}

/// Amount of work per row.
#[derive(Clone, Copy, Debug)]
struct Effort {
    repetitions: usize,
    smoke: bool,
    requests: Option<u64>,
}

impl Effort {
    /// Returns the number of requests: that of the command line, or `full` scaled.
    fn requests(self, full: u64) -> u64 {
        self.requests.unwrap_or_else(|| self.scaled(full))
    }

    /// Returns `full`, or the little that a smoke run needs.
    fn scaled(self, full: u64) -> u64 {
        if self.smoke { full.min(40) } else { full }
    }

    fn connections(self, full: usize) -> usize {
        if self.smoke { full.min(4) } else { full }
    }

    /// Returns `full` samples for rows that take several, or the few that a smoke run needs.
    fn samples(self, full: usize) -> usize {
        if self.smoke { 1 } else { full }
    }
}

/// The program.
#[must_use]
pub fn main() -> ExitCode {
    let args = Args::parse();
    crate::run(1, async {
        // On a signal, dropping the run kills the processes that it started.
        tokio::select! {
            outcome = bench(args) => outcome,
            stopped = stopped() => Err(stopped.err().unwrap_or_else(|| "stopped".into())),
        }
    })
}

/// Completes on a termination signal.
async fn stopped() -> Result<(), BoxError> {
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        outcome = ctrl_c() => outcome?,
        _ = terminate.recv() => {}
    }
    Ok(())
}

async fn bench(args: Args) -> Result<ExitCode, BoxError> {
    let Args { vmcp, no_build, smoke, requests, repetitions, profile_row } = args;
    let chosen = |row: &&Row| {
        profile_row.is_empty() || profile_row.iter().any(|name| row.name.starts_with(name.as_str()))
    };
    let rows: Vec<&Row> = ROWS.iter().filter(chosen).collect();
    if rows.is_empty() {
        let names: Vec<_> = ROWS.iter().map(|row| row.name).collect();
        return Err(format!("no such row; there are {}", names.join(", ")).into());
    }
    let programs = Programs::find(vmcp, !no_build)?;
    let repetitions = if smoke { 1 } else { repetitions.max(1) };
    let effort = Effort { repetitions, smoke, requests };
    let mut lines = Vec::new();
    for row in &rows {
        if let Kind::InProcess(work) = row.kind {
            let line = (*row, in_process::measure(work, effort).await);
            eprint!("{}", table::line(&line, effort));
            lines.push(line);
        }
    }
    for (generation, stack) in worlds() {
        let in_it = |row: &&&Row| {
            let is_served = !matches!(row.kind, Kind::InProcess(_));
            is_served && row.generation == generation && row.stack == stack
        };
        let rows: Vec<_> = rows.iter().filter(in_it).collect();
        if rows.is_empty() {
            continue;
        }
        let world = TestBed::start(&programs, generation, stack).await?;
        for row in rows {
            let start = Instant::now();
            let line = (*row, measure(row, &world, &programs, effort).await);
            eprint!("{}", table::line(&line, effort));
            eprintln!("took {:.1} s", start.elapsed().as_secs_f64());
            lines.push(line);
        }
    }
    // The table keeps the order of the list, whatever the order of the worlds.
    lines.sort_by_key(|(row, _)| ROWS.iter().position(|known| known.name == row.name));
    println!("{}", table::render(&lines, &programs, effort));
    let all_correct = lines.iter().all(|(_, measured)| measured.is_ok());
    Ok(if all_correct { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns the combinations to measure, each with its own processes.
fn worlds() -> impl Iterator<Item = (Generation, Stack)> {
    let generations = [Generation::Stateful, Generation::Stateless];
    let stacks = [Stack::Plain, Stack::Full, Stack::FullWithArguments, Stack::Composite];
    stacks.into_iter().flat_map(move |stack| generations.map(|generation| (generation, stack)))
}

async fn measure(
    row: &Row,
    world: &TestBed,
    programs: &Programs,
    effort: Effort,
) -> Result<Measurement, BoxError> {
    match &row.kind {
        Kind::Load(load) => load::measure(load, world, programs, effort).await,
        Kind::Change => change::measure(world, effort).await,
        Kind::Idle => memory::idle(world, programs, effort).await,
        Kind::Sessions(sessions) => memory::sessions(sessions, world, programs, effort).await,
        Kind::Connections(count) => memory::connections(*count, world, programs, effort).await,
        Kind::Start => start::measure(world, programs, effort).await,
        Kind::InProcess(work) => in_process::measure(*work, effort).await,
    }
}
