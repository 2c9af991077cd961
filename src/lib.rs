//! The edge of Colloquy: HTTP in, messages to actors, answers out.
