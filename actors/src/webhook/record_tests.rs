//! Tests of an endpoint's rules, without a store.
