//! Which node of a cluster serves a key.

use redis::{Value, cmd, from_redis_value};

use crate::link::Link;
use crate::{Fault, Node};

/// How many slots a cluster has.
const SLOTS: u16 = 16384;

/// Who serves which slots: ranges with their master.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slots(Vec<(u16, u16, Node)>);

impl Slots {
    /// What a node of the cluster says.
    pub(crate) async fn ask(link: &Link) -> Result<Self, Fault> {
        let node = &link.node;
        let mut question = cmd("CLUSTER");
        question.arg("SLOTS");
        let answer = link.send(&question).await.map_err(|error| {
            let off = error.detail().is_some_and(|said| said.contains("cluster support disabled"));
            if off { Fault::NoCluster { node: node.clone() } } else { Fault::of(&error, node) }
        })?;
        Self::read(answer, node).ok_or_else(|| Fault::Strange { node: node.clone() })
    }

    fn read(answer: Value, asked: &Node) -> Option<Self> {
        let ranges = answer.into_sequence().ok()?.into_iter().map(|range| {
            let mut range = range.into_sequence().ok()?.into_iter();
            let first = from_redis_value(range.next()?).ok()?;
            let last = from_redis_value(range.next()?).ok()?;
            let mut master = range.next()?.into_sequence().ok()?.into_iter();
            let host: Option<String> = from_redis_value(master.next()?).ok()?;
            // A node that doesn't know its own name means the one by which it was reached.
            let host = host.filter(|host| !host.is_empty() && host != "?");
            let host = host.map_or_else(|| asked.host().into(), String::into_boxed_str);
            let port = from_redis_value(master.next()?).ok()?;
            Some((first, last, Node::new(host, port)))
        });
        ranges.collect::<Option<_>>().map(Self)
    }

    /// The master that serves a slot.
    pub(crate) fn node(&self, slot: u16) -> Option<&Node> {
        let serves = |(first, last, _): &&(u16, u16, Node)| (*first..=*last).contains(&slot);
        self.0.iter().find(serves).map(|(_, _, node)| node)
    }

    /// Notes that a slot moved.
    pub(crate) fn moved(&mut self, slot: u16, to: Node) {
        // The newest word comes first, and the ranges stay few: the whole map is asked for soon.
        self.0.truncate(usize::from(SLOTS));
        self.0.insert(0, (slot, slot, to));
    }

    /// All masters.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.0.iter().map(|(_, _, node)| node)
    }
}

/// The slot of a key: of the part in braces, if there is one (Redis Cluster specification, "Hash
/// tags").
pub(crate) fn slot(key: &str) -> u16 {
    let tag = key.split_once('{').and_then(|(_, rest)| rest.split_once('}'));
    let hashed = tag.map_or(key, |(tag, _)| if tag.is_empty() { key } else { tag });
    crc16(hashed.as_bytes()) % SLOTS
}

/// CRC-16/XMODEM, which the specification names.
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
    fn slots_are_those_of_the_specification() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        assert_eq!(slot("foo"), 12182);
        assert_eq!(slot("{user1000}.following"), slot("{user1000}.followers"));
        assert_eq!(slot("foo{}{bar}"), crc16(b"foo{}{bar}") % SLOTS);
        assert_eq!(slot("foo{{bar}}zap"), crc16(b"{bar") % SLOTS);
        assert_eq!(slot("foo{bar}{zap}"), slot("bar"));
    }

    #[test]
    fn a_node_that_does_not_know_its_name_is_the_one_that_was_asked() {
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let range = |host, first, port| {
            let master = Value::Array(vec![host, Value::Int(port), text("id")]);
            Value::Array(vec![Value::Int(first), Value::Int(first + 99), master])
        };
        let answer = Value::Array(vec![
            range(Value::Nil, 0, 1),
            range(text(""), 100, 2),
            range(text("other"), 200, 3),
        ]);
        let mut slots = Slots::read(answer, &Node::new("asked", 9)).unwrap();
        assert_eq!(slots.node(99), Some(&Node::new("asked", 1)));
        assert_eq!(slots.node(100), Some(&Node::new("asked", 2)));
        assert_eq!(slots.node(250), Some(&Node::new("other", 3)));
        assert_eq!(slots.node(300), None);
        slots.moved(250, Node::new("new", 4));
        assert_eq!(slots.node(250), Some(&Node::new("new", 4)));
        assert_eq!(slots.node(251), Some(&Node::new("other", 3)));
        assert!(Slots::read(Value::Int(1), &Node::new("asked", 9)).is_none());
    }
}
