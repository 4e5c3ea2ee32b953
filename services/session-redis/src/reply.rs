//! Replies of scripts.

use std::vec;

use vmcp_redis::{FromRedisValue, Value, from_redis_value};
use vmcp_session::StorageError;

/// Elements of a reply after its status, in order.
pub(crate) struct Reply {
    pub(crate) status: Status,
    rest: vec::IntoIter<Value>,
}

/// Status of a step that was not rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// The step was taken.
    Taken,
    /// Another replica was first.
    Conflict,
}

/// Fields of a record and their values.
pub(crate) type Fields = Vec<(Vec<u8>, Vec<u8>)>;

impl Reply {
    /// Parses a reply, and returns the error of a rejected step.
    pub(crate) fn new(value: Value) -> Result<Self, StorageError> {
        let Value::Array(parts) = value else { return Err(StorageError::UnknownFormat) };
        let mut rest = parts.into_iter();
        let status: String = parse(rest.next())?;
        let status = match &*status {
            "ok" => Status::Taken,
            "conflict" => Status::Conflict,
            "ended" => return Err(StorageError::Ended),
            "full" => return Err(StorageError::RecordFull),
            "many" => return Err(StorageError::TooManySubscriptions),
            _ => return Err(StorageError::UnknownFormat),
        };
        Ok(Self { status, rest })
    }

    /// Returns the next element, or `None` for nil.
    pub(crate) fn get<T: FromRedisValue>(&mut self) -> Result<Option<T>, StorageError> {
        match self.rest.next() {
            None | Some(Value::Nil) => Ok(None),
            value => parse(value).map(Some),
        }
    }

    /// Returns the next element, a flat list of pairs, or `None` for nil.
    pub(crate) fn pairs(&mut self) -> Result<Option<Fields>, StorageError> {
        let Some(mut flat) = self.get::<Vec<Vec<u8>>>()? else { return Ok(None) };
        let pairs = flat.chunks_exact_mut(2);
        Ok(Some(pairs.map(|pair| (pair[0].split_off(0), pair[1].split_off(0))).collect()))
    }
}

fn parse<T: FromRedisValue>(value: Option<Value>) -> Result<T, StorageError> {
    let value = value.ok_or(StorageError::UnknownFormat)?;
    from_redis_value(value).map_err(|_| StorageError::UnknownFormat)
}
