//! Profiles of recordings whose truth is known. One program for all of it, because each would be linked by itself.

mod answer;
mod comparison;
mod coz;
mod database;
mod discovery;
mod drift;
mod explain;
mod production;
mod programs;
mod sentence;
mod synthetic;
mod threads;
