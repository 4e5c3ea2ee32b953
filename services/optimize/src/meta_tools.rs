//! The two tools that clients see instead of all others.

mod arguments;
mod result;

pub use self::arguments::{ArgumentError, CallToolArguments, parse_find_tool};
pub use self::result::{FindToolResult, MAX_DEFINITIONS_SIZE, SCORE_META_KEY, find_tool_result};

/// Name of the tool that searches for tools.
pub const FIND_TOOL: &str = "find_tool";

/// Name of the tool that calls another tool.
pub const CALL_TOOL: &str = "call_tool";

/// Definition of `find_tool` in a list of tools.
pub const FIND_TOOL_DEFINITION: &str = concat!(
    r#"{"name":"find_tool","title":"Find tools","#,
    r#""description":"Searches all available tools and returns the definitions of those that fit best, best first, with the "#,
    r#"input schema of each. Use it first, before you decide that a tool is missing; then call what it returns with call_tool. "#,
    r#"Search once for each step of a task. token_metrics tells how many tokens the search saved against a list of all tools.","#,
    r#""inputSchema":{"type":"object","properties":{"#,
    r#""tool_description":{"type":"string","description":"What the tool should do, in a sentence, for example: create an issue in "#,
    r#"a GitHub repository"},"#,
    r#""tool_keywords":{"type":"array","items":{"type":"string"},"description":"Words that occur in the name or description of the "#,
    r#"tool, for example the product and the verb: github, issue, create"}},"#,
    r#""required":["tool_description"],"additionalProperties":false},"#,
    r#""annotations":{"readOnlyHint":true,"openWorldHint":false}}"#,
);

/// Definition of `call_tool` in a list of tools. It has no annotations: what a call does depends on the tool that it calls.
pub const CALL_TOOL_DEFINITION: &str = concat!(
    r#"{"name":"call_tool","title":"Call a tool","#,
    r#""description":"Calls a tool that find_tool returned, and returns that tool's result unchanged.","#,
    r#""inputSchema":{"type":"object","properties":{"#,
    r#""tool_name":{"type":"string","description":"Name of the tool, exactly as find_tool returned it"},"#,
    r#""parameters":{"type":"object","description":"Arguments of the tool, according to its input schema; {} if it has none"}},"#,
    r#""required":["tool_name","parameters"],"additionalProperties":false}}"#,
);

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn definitions_have_the_documented_schemas() {
        let find: Value = serde_json::from_str(FIND_TOOL_DEFINITION).unwrap();
        assert_eq!(find["name"], FIND_TOOL);
        assert_eq!(find["inputSchema"]["required"], serde_json::json!(["tool_description"]));
        assert_eq!(find["inputSchema"]["properties"]["tool_keywords"]["items"]["type"], "string");
        assert_eq!(find["annotations"]["readOnlyHint"], true);
        let call: Value = serde_json::from_str(CALL_TOOL_DEFINITION).unwrap();
        assert_eq!(call["name"], CALL_TOOL);
        assert_eq!(call["inputSchema"]["required"], serde_json::json!(["tool_name", "parameters"]));
        assert!(call.get("annotations").is_none());
    }
}
