//! `dice`: rolls dice one by one, with progress, and tells fortunes.

use std::time::Duration;

use serde_json::{Value, json};

use crate::mcp_server::{ClientChannel, McpServer, RpcError, failed, text, tool};

/// Duration of one roll.
const ROLL: Duration = Duration::from_millis(100);

const SIDES: std::ops::RangeInclusive<u64> = 2..=1000;
const DICE: std::ops::RangeInclusive<u64> = 1..=20;

#[derive(Debug)]
pub(crate) struct Dice;

impl McpServer for Dice {
    const NAME: &'static str = "dice";
    const INSTRUCTIONS: &'static str = "The dice are fair. Each takes a moment to come to rest.";

    fn capabilities() -> Value {
        json!({"tools": {}, "prompts": {}})
    }

    async fn handle(
        &self,
        method: &str,
        params: &Value,
        client: &ClientChannel,
    ) -> Result<Value, RpcError> {
        match method {
            "tools/list" => Ok(json!({"tools": [roll_tool()]})),
            "tools/call" if params["name"] == "roll" => roll(&params["arguments"], client).await,
            "prompts/list" => Ok(json!({"prompts": [fortune()]})),
            "prompts/get" if params["name"] == "fortune" => {
                Ok(fortune_messages(&params["arguments"]))
            }
            "tools/call" | "prompts/get" => Err(RpcError::invalid("no such name")),
            _ => Err(RpcError::unknown_method(method)),
        }
    }
}

fn roll_tool() -> Value {
    let mut roll = tool(
        "roll",
        "Roll the dice",
        "Throws some dice and tells how each fell, with progress meanwhile.",
        &json!({
            "dice": {"type": "integer", "minimum": DICE.start(), "maximum": DICE.end()},
            "sides": {"type": "integer", "minimum": SIDES.start(), "maximum": SIDES.end()},
        }),
    );
    roll["annotations"] = json!({"readOnlyHint": true, "openWorldHint": false});
    roll
}

async fn roll(arguments: &Value, client: &ClientChannel) -> Result<Value, RpcError> {
    let number = |key: &str, range: &std::ops::RangeInclusive<u64>| {
        arguments[key].as_u64().filter(|number| range.contains(number))
    };
    let (Some(dice), Some(sides)) = (number("dice", &DICE), number("sides", &SIDES)) else {
        return Ok(failed(format!(
            "dice must be {} to {}, sides {} to {}",
            DICE.start(),
            DICE.end(),
            SIDES.start(),
            SIDES.end()
        )));
    };
    let mut fallen = Vec::new();
    for die in 1..=dice {
        tokio::time::sleep(ROLL).await;
        let Some(face) = fair(sides) else {
            return Ok(failed("the system has no random numbers"));
        };
        fallen.push(face);
        client.progress(die, dice, &format!("die {die}: {face}")).await;
    }
    let total: u64 = fallen.iter().sum();
    let faces = fallen.iter().map(u64::to_string).collect::<Vec<_>>().join(" + ");
    Ok(text(format!("{faces} = {total}")))
}

/// Returns a side with uniform probability; `None` if the system has no random numbers.
fn fair(sides: u64) -> Option<u64> {
    // Reject the rest of the range, which would favor the first sides.
    let end = u64::MAX - u64::MAX % sides;
    loop {
        let random = getrandom::u64().ok()?;
        if random < end {
            return Some(random % sides + 1);
        }
    }
}

fn fortune() -> Value {
    json!({
        "name": "fortune",
        "title": "Let the dice decide",
        "description": "Throws dice over a question and reads them.",
        "arguments": [{"name": "question", "description": "What to decide", "required": true}],
    })
}

fn fortune_messages(arguments: &Value) -> Value {
    let request = arguments["question"].as_str().unwrap_or("What now?");
    json!({
        "description": "Throws dice over a question and reads them.",
        "messages": [{
            "role": "user",
            "content": {
                "type": "text",
                "text": format!("Throw two dice of six sides and read from them an answer to: {request}"),
            },
        }],
    })
}
