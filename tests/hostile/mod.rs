//! One client harms nobody but itself: each file holds attacks of one kind, each test is one
//! attack, run beside another account that goes on with its work.

mod bodies;
mod confirming;
mod connections;
mod customers;
mod documents;
mod edits;
mod fill;
mod full_disk;
mod identifiers;
mod lines;
mod links;
mod lists;
mod long_conversation;
mod long_document;
mod names;
mod neighbour;
mod offsets;
mod pages;
mod searches;
mod slow_readers;
mod threads;
mod timing;
mod turns;
mod uploads;
mod webhooks;
mod writer;

use neighbour::Neighbour;
