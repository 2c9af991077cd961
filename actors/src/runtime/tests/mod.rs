//! The runtime, tried without HTTP and without a store.
