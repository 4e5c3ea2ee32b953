//! Parsing of expressions, on a stack of its own.

use cel::common::ast::IdedExpr;
use cel::parser::Parser;

use crate::MatcherError;

/// In bytes. Several times what the worst expressions that were found take without optimization. Only
/// what is touched takes memory.
const PARSER_STACK_SIZE: usize = 32 << 20;

/// The parser is generated code that goes through a dozen calls for each bracket, and has not seen
/// everything yet. So it gets a stack that the deepest allowed brackets don't fill, and a panic is a
/// bad expression, not the end of the program.
pub(crate) fn parse(source: &str) -> Result<IdedExpr, MatcherError> {
    let result = std::thread::scope(|scope| {
        let parser =
            std::thread::Builder::new().name("cel-parser".into()).stack_size(PARSER_STACK_SIZE);
        let parse = || {
            Parser::default().parse(source).map_err(|errors| {
                let message = errors.errors.first().map(|error| {
                    format!("{} (line {}, column {})", error.msg, error.pos.0, error.pos.1)
                });
                MatcherError::Syntax(message.unwrap_or_default().into())
            })
        };
        parser.spawn_scoped(scope, parse).map(std::thread::ScopedJoinHandle::join)
    });
    match result {
        Ok(Ok(result)) => result,
        Ok(Err(_panic)) => Err(MatcherError::Syntax("it cannot be read".into())),
        Err(none) => Err(MatcherError::Syntax(format!("no thread to read it on: {none}").into())),
    }
}

/// How deep brackets nest at most. Those in texts count too: it is for the parser's stack.
pub(crate) fn max_bracket_depth(source: &str) -> usize {
    let (mut depth, mut max_depth) = (0_usize, 0);
    for byte in source.bytes() {
        match byte {
            b'(' | b'[' | b'{' | b'?' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        max_depth = max_depth.max(depth);
    }
    max_depth
}
