//! The problems that every face shows by the same slug, and the page that explains each of them.

mod catalogue;
mod page;

pub use self::catalogue::{CATALOGUE, Problem, Sent};
pub use self::page::{index, page};

/// The beginning of the `type` of a problem; the slug follows.
pub const TYPE_PREFIX: &str = "urn:counterfoil:problem:";

/// The problem of this slug.
#[must_use]
pub fn find(slug: &str) -> Option<&'static Problem> {
    CATALOGUE.iter().find(|problem| problem.slug == slug)
}

/// The known slug nearest to an unknown one.
#[must_use]
pub fn nearest(slug: &str) -> Option<&'static str> {
    crate::suggest::nearest(slug, CATALOGUE.iter().map(|problem| problem.slug))
}

impl Problem {
    /// The `type` of the problem.
    #[must_use]
    pub fn type_uri(&self) -> String {
        format!("{TYPE_PREFIX}{}", self.slug)
    }

    /// Where a server serves the page.
    #[must_use]
    pub fn doc(&self) -> String {
        format!("/problems/{}", self.slug)
    }
}

#[cfg(test)]
mod tests;
