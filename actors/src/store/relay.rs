//! Of the processes that share a store one delivers. What the others are asked about deliveries they
//! hand to that one, through the store.

use super::{Later, ReadError};

/// A span of time in which one process delivers, and no other does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeliveryTerm(pub u64);

/// A request that another process has handed over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelayedRequest {
    /// Names it, for its answer.
    pub id: String,
    /// What is asked, in the words of whoever delivers.
    pub body: Vec<u8>,
}

/// The way to the process that delivers. A store that no other process shares has none: there
/// whoever asks delivers.
pub trait DeliveryRelay: Send + Sync + 'static {
    /// The term in which this process delivers: another one where a different process has delivered
    /// in between. None where another one delivers, or nobody may for now.
    fn delivery_term(&self) -> Option<DeliveryTerm> {
        Some(DeliveryTerm(0))
    }

    /// Hands a request to the process that delivers, and gives its answer.
    ///
    /// # Errors
    /// The store is away, or nobody answers in time: whether it was done is not known.
    fn relay(&self, _body: Vec<u8>) -> Later<Result<Vec<u8>, ReadError>> {
        Box::pin(std::future::ready(Err(ReadError::Away)))
    }

    /// Waits for requests that other processes have handed over; each is given once, behind all that
    /// any process had acknowledged when it was asked.
    fn relayed(&self) -> Later<Vec<RelayedRequest>> {
        Box::pin(std::future::pending())
    }

    /// Answers such a request. Whoever asked may have left.
    fn answer_relayed(&self, _id: String, _answer: Vec<u8>) -> Later<()> {
        Box::pin(std::future::ready(()))
    }
}
