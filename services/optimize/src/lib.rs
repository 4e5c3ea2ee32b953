#![doc = include_str!("../README.md")]

mod document;
mod embedding;
mod fusion;
mod hit;
mod index;
mod interner;
mod keyword;
mod meta_tools;
mod query;
mod search;
mod segment;
mod set_data;
mod terms;
mod tool_set;
mod vector;

pub use self::{
    embedding::{
        Embedder, EmbedderStatus, EmbeddingError, EmbeddingModelError, EmbeddingService,
        EmbeddingUrlError, FallbackReason,
    },
    fusion::{ArmRank, ToolMatch},
    index::{Index, IndexCounts, IndexError, MAX_TOOLS, ToolDefinition},
    meta_tools::{
        ArgumentError, CALL_TOOL, CALL_TOOL_DEFINITION, CallToolArguments, FIND_TOOL,
        FIND_TOOL_DEFINITION, FindToolResult, MAX_DEFINITIONS_SIZE, SCORE_META_KEY,
        find_tool_result, parse_find_tool,
    },
    query::{MAX_QUERY_TEXT, Query},
    search::{MAX_RESULTS, SearchMode, SearchOptions, SearchResult, ToolSearch},
    tool_set::{PositionError, ToolSet, View},
};
