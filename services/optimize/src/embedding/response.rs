//! Bodies of responses.

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::EmbeddingError;
use crate::vector::{Vector, VectorError};

/// Response of `GET /info`.
#[derive(Deserialize)]
pub(super) struct InfoResponse {
    pub(super) model_id: String,
    #[serde(default)]
    pub(super) model_sha: Option<String>,
    #[serde(default)]
    pub(super) max_client_batch_size: Option<usize>,
}

/// Response of `GET /models`.
#[derive(Deserialize)]
pub(super) struct ModelsResponse {
    pub(super) data: Vec<ListedModel>,
}

#[derive(Deserialize)]
pub(super) struct ListedModel {
    pub(super) id: String,
}

/// Response of `POST /embeddings`.
#[derive(Deserialize)]
pub(super) struct EmbeddingsResponse {
    #[serde(default)]
    pub(super) model: Option<String>,
    data: Vec<Embedding>,
}

#[derive(Deserialize)]
struct Embedding {
    index: usize,
    embedding: Vec<f32>,
}

/// Parses a JSON body.
///
/// # Errors
/// The body is not JSON of the form `T`.
pub(super) fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, EmbeddingError> {
    serde_json::from_slice(body).map_err(|error| {
        // Without the parser's message, which may quote the body.
        let (line, column) = (error.line(), error.column());
        let found = format!("a body of another form (line {line}, column {column})");
        EmbeddingError::Malformed(found)
    })
}

/// Returns the vectors of a response to `count` texts.
///
/// # Errors
/// Their number or form is wrong.
pub(super) fn vectors(rows: Vec<Vec<f32>>, count: usize) -> Result<Vec<Vector>, EmbeddingError> {
    if rows.len() != count {
        let found = format!("{} vectors for {count} texts", rows.len());
        return Err(EmbeddingError::Malformed(found));
    }
    let vectors = rows.into_iter().map(Vector::new).collect::<Result<_, _>>();
    vectors.map_err(|error| {
        let found = match error {
            VectorError::Width => "a vector without values or with too many",
            VectorError::NotFinite => "a vector with values that are not finite",
        };
        EmbeddingError::Malformed(found.to_owned())
    })
}

impl EmbeddingsResponse {
    /// Returns the vectors in the order of the texts.
    ///
    /// # Errors
    /// A text has no vector, or several.
    pub(super) fn into_rows(mut self) -> Result<Vec<Vec<f32>>, EmbeddingError> {
        self.data.sort_unstable_by_key(|embedding| embedding.index);
        let is_complete = self.data.iter().enumerate().all(|(at, it)| it.index == at);
        if !is_complete {
            return Err(EmbeddingError::Malformed("wrong indexes of vectors".to_owned()));
        }
        Ok(self.data.into_iter().map(|embedding| embedding.embedding).collect())
    }
}
