//! Slot map of a Redis cluster.
//!
//! The `redis` crate keeps its own private. Its cluster client would fail commands that a server executes, as the test
//! `failed_slot_query_fails_no_other_command` shows.

use std::fmt;
use std::ops::RangeInclusive;

use redis::{Value, cmd, from_redis_value};

use crate::connection::Connection;
use crate::{Error, Node};

/// Number of hash slots in a cluster.
const SLOT_COUNT: u16 = 16384;

/// Nodes of a cluster, and the master of each slot.
#[derive(Clone)]
pub(crate) struct SlotMap {
    /// Masters and replicas.
    nodes: Vec<Node>,
    /// Index of each slot's master in `nodes`; `None` if it has to be queried.
    slots: Vec<Option<u16>>,
}

impl SlotMap {
    /// Requests the slot map from a node (`CLUSTER SLOTS`).
    pub(crate) async fn fetch(connection: &Connection) -> Result<Self, Error> {
        let node = &connection.node;
        let mut command = cmd("CLUSTER");
        command.arg("SLOTS");
        let response = connection.send(&command).await.map_err(|error| {
            let disabled =
                error.detail().is_some_and(|detail| detail.contains("cluster support disabled"));
            if disabled {
                Error::ClusterDisabled { node: node.clone() }
            } else {
                Error::from_redis(&error, node)
            }
        })?;
        Self::parse(response, node).ok_or_else(|| Error::UnexpectedResponse { node: node.clone() })
    }

    fn parse(response: Value, queried: &Node) -> Option<Self> {
        let mut map = Self { nodes: Vec::new(), slots: vec![None; usize::from(SLOT_COUNT)] };
        for range in response.into_sequence().ok()? {
            let mut range = range.into_sequence().ok()?.into_iter();
            let first = from_redis_value(range.next()?).ok()?;
            let last = from_redis_value(range.next()?).ok()?;
            map.assign(first..=last, parse_node(range.next()?, queried)?)?;
            for replica in range.filter_map(|replica| parse_node(replica, queried)) {
                map.index(replica)?;
            }
        }
        Some(map)
    }

    /// Assigns slots to a master. Returns `None` if there are no such slots.
    fn assign(&mut self, slots: RangeInclusive<u16>, master: Node) -> Option<()> {
        let index = self.index(master)?;
        let (first, last) = (usize::from(*slots.start()), usize::from(*slots.end()));
        self.slots.get_mut(first..=last)?.fill(Some(index));
        Some(())
    }

    /// Returns the index of a node, which is added if it is new.
    fn index(&mut self, node: Node) -> Option<u16> {
        let known = self.nodes.iter().position(|known| *known == node);
        if known.is_none() {
            self.nodes.push(node);
        }
        u16::try_from(known.unwrap_or(self.nodes.len() - 1)).ok()
    }

    /// Returns the master that serves a slot.
    pub(crate) fn master(&self, slot: u16) -> Option<&Node> {
        let index = (*self.slots.get(usize::from(slot))?)?;
        self.nodes.get(usize::from(index))
    }

    /// Records that a slot moved to another master.
    pub(crate) fn record_move(&mut self, slot: u16, to: Node) {
        // A slot that does not exist has no commands.
        let _ = self.assign(slot..=slot, to);
    }

    /// Removes the slots of a master. Their next command queries the slot map.
    pub(crate) fn remove(&mut self, node: &Node) {
        let nodes = &self.nodes;
        for slot in &mut self.slots {
            *slot = slot.filter(|index| nodes.get(usize::from(*index)) != Some(node));
        }
    }

    /// Returns the masters and replicas. Each of them can report the slot map.
    pub(crate) fn nodes(&self) -> &[Node] {
        &self.nodes
    }
}

impl fmt::Debug for SlotMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SlotMap").field("nodes", &self.nodes).finish_non_exhaustive()
    }
}

fn parse_node(node: Value, queried: &Node) -> Option<Node> {
    let mut node = node.into_sequence().ok()?.into_iter();
    let host: Option<String> = from_redis_value(node.next()?).ok()?;
    // A node that doesn't know its own name reports none: use the address of the connection.
    let host = host.filter(|host| !host.is_empty() && host != "?");
    let host = host.map_or_else(|| queried.host().into(), String::into_boxed_str);
    Some(Node::new(host, from_redis_value(node.next()?).ok()?))
}

/// Returns the slot of a key: the hash of the part in braces, if there is one (Redis Cluster
/// specification, "Hash tags").
pub(crate) fn slot(key: &str) -> u16 {
    let tag = key.split_once('{').and_then(|(_, rest)| rest.split_once('}'));
    let hashed = tag.map_or(key, |(tag, _)| if tag.is_empty() { key } else { tag });
    crc16(hashed.as_bytes()) % SLOT_COUNT
}

/// CRC-16/XMODEM, as the specification requires.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn computes_slots_of_the_specification() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        assert_eq!(slot("foo"), 12182);
        assert_eq!(slot("{user1000}.following"), slot("{user1000}.followers"));
        assert_eq!(slot("foo{}{bar}"), crc16(b"foo{}{bar}") % SLOT_COUNT);
        assert_eq!(slot("foo{{bar}}zap"), crc16(b"{bar") % SLOT_COUNT);
        assert_eq!(slot("foo{bar}{zap}"), slot("bar"));
    }

    #[test]
    fn missing_host_means_the_queried_node() {
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let range = |host, first, port| {
            let master = Value::Array(vec![host, Value::Int(port), text("id")]);
            Value::Array(vec![Value::Int(first), Value::Int(first + 99), master])
        };
        let response = Value::Array(vec![
            range(Value::Nil, 0, 1),
            range(text(""), 100, 2),
            range(text("other"), 200, 3),
        ]);
        let mut slots = SlotMap::parse(response, &Node::new("asked", 9)).unwrap();
        assert_eq!(slots.master(99), Some(&Node::new("asked", 1)));
        assert_eq!(slots.master(100), Some(&Node::new("asked", 2)));
        assert_eq!(slots.master(250), Some(&Node::new("other", 3)));
        assert_eq!(slots.master(300), None);
        slots.record_move(250, Node::new("new", 4));
        assert_eq!(slots.master(250), Some(&Node::new("new", 4)));
        assert_eq!(slots.master(251), Some(&Node::new("other", 3)));
        // The previous master of the slot does not return.
        slots.remove(&Node::new("new", 4));
        assert_eq!(slots.master(250), None);
        assert_eq!(slots.master(251), Some(&Node::new("other", 3)));
        let beyond = Value::Array(vec![range(text("other"), 16300, 3)]);
        for invalid in [Value::Int(1), beyond] {
            assert!(SlotMap::parse(invalid, &Node::new("asked", 9)).is_none());
        }
    }
}
