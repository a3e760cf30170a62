//! Execution of operations on one object: a vector of ops and what the object is like now make a transaction, a log entry and a reply.
