//! Many operations on conversations in one request.
