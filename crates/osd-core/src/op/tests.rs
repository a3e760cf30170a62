//! Requests as stock answers them, over the memory store.
