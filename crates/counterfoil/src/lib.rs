//! The library.

pub mod arguments;
pub mod fingerprint;
pub mod json;
pub mod keys;
pub mod pointer;
pub mod secret_shapes;

pub use fingerprint::{Arguments, Fingerprint};
pub use keys::KeyFormat;
pub use pointer::Pointer;
