//! Definitions of tools and arguments of any bytes: the search ends, and its result is JSON.

#![no_main]

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use vmcp_optimize::{
    CallToolArguments, Index, SearchOptions, ToolDefinition, ToolSearch, find_tool_result,
    parse_find_tool,
};

fuzz_target!(|data: (Vec<u8>, Vec<u8>)| {
    let (definition, arguments) = data;
    let _ = CallToolArguments::parse(&arguments);
    let nested: Vec<_> = definition.iter().filter(|byte| b"[{".contains(byte)).copied().collect();
    let tool = ToolDefinition { server: "server".into(), json: Bytes::from(definition) };
    let index = Index::new();
    let (Ok(set), Ok(query)) = (index.insert(&[tool]), parse_find_tool(&arguments)) else { return };
    let view = set.view_of_all();
    let search = ToolSearch::new(SearchOptions::default());
    let found = pin!(search.search(&view, &query));
    let Poll::Ready(found) = found.poll(&mut Context::from_waker(Waker::noop())) else {
        panic!("a search without embeddings waits for nothing");
    };
    let result = find_tool_result(&view, &found);
    // A result is nested deeper than the definition in it, and may exceed the depth that is read.
    if nested.len() <= vmcp_wire::MAX_DEPTH / 2 {
        assert_eq!(vmcp_wire::validate(&result), Ok(()));
    }
});
