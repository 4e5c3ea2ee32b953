//! Throughput of the scanner, against a serde_json envelope of raw values in the same run.
//!
//! `cargo run --release -p vmcp-wire --example throughput`
#![allow(clippy::disallowed_types, reason = "measures real time")]
#![allow(clippy::cast_precision_loss, reason = "figures for people")]

use std::collections::HashMap;
use std::hint::black_box;
use std::time::{Duration, Instant};

use serde_json::value::RawValue;
use vmcp_wire::{Envelope, Key, Splice, scan, scan_prefix};

/// The common approach of proxies: the message and `params` as maps of raw values, the name as a string.
fn serde_envelope(message: &[u8]) -> Option<(String, String)> {
    let message: HashMap<&str, &RawValue> = serde_json::from_slice(message).ok()?;
    let params: HashMap<&str, &RawValue> =
        serde_json::from_str(message.get("params")?.get()).ok()?;
    let method = serde_json::from_str(message.get("method")?.get()).ok()?;
    Some((method, serde_json::from_str(params.get("name")?.get()).ok()?))
}

fn rewrite(message: &[u8]) -> Option<usize> {
    let Ok(Envelope::Request { params, .. }) = scan(message) else { return None };
    let mut splice = Splice::new(message);
    splice.replace(params.get(Key::Name)?, &b"\"search\""[..]);
    Some(splice.finish().len())
}

/// The best of five rounds, in nanoseconds per call. Rounds of different functions are interleaved by the caller.
fn round(mut call: impl FnMut()) -> f64 {
    let mut calls = 0u32;
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(60) {
        for _ in 0..32 {
            call();
        }
        calls += 32;
    }
    start.elapsed().as_nanos() as f64 / f64::from(calls)
}

fn compare(title: &str, message: &[u8]) {
    let mut best = [f64::MAX; 4];
    for _ in 0..5 {
        let rounds = [
            round(|| _ = black_box(scan(black_box(message)))),
            round(|| _ = black_box(serde_envelope(black_box(message)))),
            round(|| _ = black_box(rewrite(black_box(message)))),
            round(|| _ = black_box(scan_prefix(black_box(message)))),
        ];
        for (best, now) in best.iter_mut().zip(rounds) {
            *best = best.min(now);
        }
    }
    let [scan, serde, rewrite, head] = best;
    let speed = |nanos: f64| message.len() as f64 / nanos;
    println!("{title}: {} bytes", message.len());
    println!("  scan           {scan:10.0} ns  {:6.2} GB/s", speed(scan));
    println!("  scan + splice  {rewrite:10.0} ns  {:6.2} GB/s", speed(rewrite));
    println!("  head           {head:10.0} ns  {:6.2} GB/s", speed(head));
    println!(
        "  serde RawValue {serde:10.0} ns  {:6.2} GB/s  {:.2} times the scan",
        speed(serde),
        serde / scan
    );
}

fn call(argument: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":42,"method":"tools/call","params":{{"name":"github_search_issues","arguments":{{"query":{argument},"owner":"example","repo":"gateway","limit":25,"state":["open","closed"],"sort":{{"by":"updated","ascending":false}}}},"_meta":{{"progressToken":"b7c1f0d2"}}}}}}"#
    )
}

fn main() {
    compare("a call", call("\"label:bug is:open sort:updated-desc author:somebody\"").as_bytes());
    compare(
        "a string of 64 KiB",
        call(&format!("\"{}\"", "lorem ipsum dolor ".repeat(3641))).as_bytes(),
    );
    compare(
        "64 KiB of code in a string",
        call(&format!("\"{}\"", "    let value = 1;\\n".repeat(3277))).as_bytes(),
    );
    compare(
        "64 KiB of text beyond ASCII",
        call(&format!("\"{}\"", "žluťoučký kůň ".repeat(3277))).as_bytes(),
    );
    compare(
        "64 KiB of small numbers",
        call(&format!("[{}0]", "12,3.5,-7,".repeat(6553))).as_bytes(),
    );
}
