//! Parsing of expressions, on a stack of its own.

use cel::common::ast::IdedExpr;
use cel::parser::Parser;

use crate::MatcherError;

/// In bytes. Several times what the worst expressions that were found take without optimization. Only
/// what is touched takes memory.
const PARSER_STACK: usize = 32 << 20;

/// The parser is generated code that goes through a dozen calls for each bracket, and has not seen
/// everything yet. So it gets a stack that the deepest allowed brackets don't fill, and a panic is a
/// bad expression, not the end of the program.
pub(crate) fn parse(source: &str) -> Result<IdedExpr, MatcherError> {
    let parsed = std::thread::scope(|scope| {
        let parser = std::thread::Builder::new().name("cel-parser".into()).stack_size(PARSER_STACK);
        let parse = || {
            Parser::default().parse(source).map_err(|errors| {
                let told = errors.errors.first().map(|error| {
                    format!("{} (line {}, column {})", error.msg, error.pos.0, error.pos.1)
                });
                MatcherError::Syntax(told.unwrap_or_default().into())
            })
        };
        parser.spawn_scoped(scope, parse).map(std::thread::ScopedJoinHandle::join)
    });
    match parsed {
        Ok(Ok(parsed)) => parsed,
        Ok(Err(_panic)) => Err(MatcherError::Syntax("it cannot be read".into())),
        Err(none) => Err(MatcherError::Syntax(format!("no thread to read it on: {none}").into())),
    }
}

/// How deep brackets nest at most. Those in texts count too: it is for the parser's stack.
pub(crate) fn brackets(source: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    for byte in source.bytes() {
        match byte {
            b'(' | b'[' | b'{' | b'?' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}
