//! Rows of the table and their limits.

use super::tokens::Algorithm;
use crate::Generation;
use crate::load::Mode;

/// A row of the table.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) what: &'static str,
    pub(super) generation: Generation,
    pub(super) stack: Stack,
    pub(super) kind: Kind,
    pub(super) limits: &'static [Limit],
}

/// Features of the measured gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stack {
    /// None: anonymous clients and default settings.
    Plain,
    /// All, with policies that inspect no arguments.
    Full,
    /// All, with one policy that inspects arguments.
    FullWithArguments,
    /// As plain, with a composite tool.
    Composite,
}

#[derive(Debug)]
pub(super) enum Kind {
    /// Requests in a closed loop.
    Load(Load),
    /// First list after a change of every backend.
    Change,
    /// Memory before the first request.
    Idle,
    /// Memory of idle sessions.
    Sessions(IdleSessions),
    /// Memory with this many active connections.
    Connections(usize),
    /// Time from process start to the first response.
    Start,
    /// Work in the process of the benchmark, without a gateway.
    InProcess(Work),
}

/// Work of [`Kind::InProcess`].
#[derive(Clone, Copy, Debug)]
pub(super) enum Work {
    /// Run of a chain of steps, compared with a loop over the same service.
    Chain(StepService),
    /// Parallel steps, compared with one of them.
    Diamond,
    /// Search among this many tools, compared with the bare `bm25` crate.
    Search(usize),
}

/// Service that the steps of [`Work::Chain`] call.
#[derive(Clone, Copy, Debug)]
pub(super) enum StepService {
    /// Returns a constant at once: shows the cost of the engine alone.
    Constant,
    /// Parses its result, as a client of a backend does.
    Parsed,
    /// Returns after 5 ms.
    Slow,
}

/// Parameters of [`Kind::Load`].
#[derive(Debug)]
pub(super) struct Load {
    pub(super) mode: Mode,
    pub(super) bytes: usize,
    pub(super) connections: usize,
    pub(super) requests: u64,
    /// Call the tools of all backends in turn instead of the first backend's only.
    pub(super) spread: bool,
    /// Use a new token for each request. By default tokens repeat, if there are any.
    pub(super) new_tokens: Option<Algorithm>,
}

/// Parameters of [`Kind::Sessions`].
#[derive(Debug)]
pub(super) struct IdleSessions {
    pub(super) backends: usize,
    pub(super) sessions: u64,
    pub(super) streams: bool,
}

/// Limit of the gateway's figure. Ratios compare it with the proxy's figure.
#[derive(Clone, Copy, Debug)]
pub(super) enum Limit {
    /// Maximum ratio of CPU time per request.
    Cpu(f64),
    /// Minimum ratio of requests per second.
    Rate(f64),
    /// Maximum ratio of median latencies.
    Median(f64),
    /// Maximum value in the unit of the row.
    Value(f64),
    /// Maximum ratio of values in the unit of the row.
    Times(f64),
}

use Generation::{Stateful, Stateless};
use Limit::{Cpu, Median, Rate, Times, Value};

const CALL: Load = Load {
    mode: Mode::Call,
    bytes: 200,
    connections: 64,
    requests: 20_000,
    spread: false,
    new_tokens: None,
};
const LARGE: Load = Load { bytes: 64 << 10, connections: 16, requests: 2_000, ..CALL };
const LIST: Load = Load { mode: Mode::List, bytes: 0, connections: 8, requests: 600, ..CALL };
const INIT: Load = Load { mode: Mode::Init, bytes: 0, connections: 16, requests: 1_500, ..CALL };
const SPREAD: Load = Load { spread: true, ..CALL };
const CHAIN: Load = Load { mode: Mode::Chain, connections: 16, requests: 6_000, ..CALL };
const NEW_RS256: Load = Load { requests: 10_000, new_tokens: Some(Algorithm::Rs256), ..CALL };
const NEW_ES256: Load = Load { requests: 10_000, new_tokens: Some(Algorithm::Es256), ..CALL };

const fn row(
    name: &'static str,
    what: &'static str,
    generation: Generation,
    kind: Kind,
    limits: &'static [Limit],
) -> Row {
    Row { name, what, generation, stack: Stack::Plain, kind, limits }
}

const fn full(
    name: &'static str,
    what: &'static str,
    generation: Generation,
    load: Load,
    limits: &'static [Limit],
) -> Row {
    Row { name, what, generation, stack: Stack::Full, kind: Kind::Load(load), limits }
}

const fn chain(name: &'static str, generation: Generation) -> Row {
    let what = "composite chain of 3 calls / the 3 calls";
    let row = row(name, what, generation, Kind::Load(CHAIN), &[Cpu(1.25), Median(1.25)]);
    Row { stack: Stack::Composite, ..row }
}

const fn in_process(
    name: &'static str,
    what: &'static str,
    work: Work,
    limits: &'static [Limit],
) -> Row {
    row(name, what, Stateful, Kind::InProcess(work), limits)
}

const fn sessions(backends: usize, sessions: u64, streams: bool) -> Kind {
    Kind::Sessions(IdleSessions { backends, sessions, streams })
}

/// All rows, in the order of the table.
#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    row("call-stateful", "tools/call 200 B, 64 connections", Stateful, Kind::Load(CALL), &[Cpu(1.35), Rate(0.80)]),
    row("call-stateless", "tools/call 200 B, 64 connections", Stateless, Kind::Load(CALL), &[Cpu(1.35), Rate(0.80)]),
    row("spread-stateful", "the same, over five backends in turn", Stateful, Kind::Load(SPREAD), &[]),
    row("spread-stateless", "the same, over five backends in turn", Stateless, Kind::Load(SPREAD), &[]),
    row("large-stateful", "64 KiB both ways, 16 connections", Stateful, Kind::Load(LARGE), &[Cpu(1.3)]),
    row("large-stateless", "64 KiB both ways, 16 connections", Stateless, Kind::Load(LARGE), &[Cpu(1.3)]),
    row("list-stateful", "tools/list of 1000, warm", Stateful, Kind::Load(LIST), &[Cpu(1.0)]),
    row("list-stateless", "tools/list of 1000, warm", Stateless, Kind::Load(LIST), &[Cpu(1.0)]),
    row("change-stateful", "first list after all backends changed", Stateful, Kind::Change, &[Cpu(4.0)]),
    row("change-stateless", "first list after all backends changed", Stateless, Kind::Change, &[Cpu(4.0)]),
    row("initialize", "initialize + initialized", Stateful, Kind::Load(INIT), &[Cpu(1.5)]),
    row("memory-idle", "MiB, no connection", Stateful, Kind::Idle, &[Value(16.0)]),
    row("session-one", "KiB per idle session, one backend", Stateful, sessions(1, 2_000, false), &[Value(1.0)]),
    row("session-five", "KiB per idle session, five backends", Stateful, sessions(5, 2_000, false), &[Value(3.0)]),
    row("stream-one", "the same with its GET stream, one", Stateful, sessions(1, 400, true), &[]),
    row("stream-five", "the same with its GET stream, five", Stateful, sessions(5, 400, true), &[]),
    row("memory-256", "MiB, 256 connections that call", Stateful, Kind::Connections(256), &[Value(40.0)]),
    row("start", "ms to the first answered initialize", Stateful, Kind::Start, &[Times(4.0)]),
    full("full-call-stateful", "the full stack: call, tokens repeat", Stateful, CALL, &[Cpu(2.0), Rate(0.65)]),
    full("full-call-stateless", "the full stack: call, tokens repeat", Stateless, CALL, &[Cpu(2.0), Rate(0.65)]),
    full("full-new-rs256-stateful", "the same, every token new, RS256", Stateful, NEW_RS256, &[Cpu(3.2)]),
    full("full-new-rs256-stateless", "the same, every token new, RS256", Stateless, NEW_RS256, &[Cpu(3.2)]),
    full("full-new-es256-stateful", "the same, every token new, ES256", Stateful, NEW_ES256, &[Cpu(5.2)]),
    full("full-new-es256-stateless", "the same, every token new, ES256", Stateless, NEW_ES256, &[Cpu(5.2)]),
    full("full-list-stateful", "the full stack: list of 995 of 1000, warm", Stateful, LIST, &[Cpu(1.1)]),
    full("full-list-stateless", "the full stack: list of 995 of 1000, warm", Stateless, LIST, &[Cpu(1.1)]),
    Row { stack: Stack::FullWithArguments, ..full("full-arguments-stateful", "call, a policy looks at arguments", Stateful, CALL, &[]) },
    Row { stack: Stack::FullWithArguments, ..full("full-arguments-stateless", "call, a policy looks at arguments", Stateless, CALL, &[]) },
    chain("chain-stateful", Stateful),
    chain("chain-stateless", Stateless),
    in_process("engine-chain", "us CPU a step, chain of 100 / a loop", Work::Chain(StepService::Constant), &[Times(5.0), Value(10.0)]),
    in_process("engine-chain-parsed", "the same, results of 1 KB are parsed", Work::Chain(StepService::Parsed), &[Times(5.0), Value(10.0)]),
    in_process("engine-diamond", "ms p50, 8 parallel steps of 5 ms / one", Work::Diamond, &[Times(1.3)]),
    in_process("search-1000", "us CPU a search of 1,000 tools / bare bm25", Work::Search(1_000), &[Times(3.0), Value(300.0)]),
    in_process("search-10000", "us CPU a search of 10,000 tools / bare bm25", Work::Search(10_000), &[Times(3.0)]),
];
