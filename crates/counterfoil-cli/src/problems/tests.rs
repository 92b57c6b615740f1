//! The catalogue is complete: every code that the library can answer with has a page.

use counterfoil::guard::Stage;
use counterfoil::{OperationId, Refusal, StoreError};

use super::*;

#[test]
fn every_code_of_the_library_is_explained() {
    let refusals = [
        Refusal::UnknownOperation,
        Refusal::UnknownNamed { id: OperationId::parse("a").unwrap() },
        Refusal::ReceiptExpired { stage: Stage::Succeeded },
        Refusal::OperationIdReused { differs: Vec::new(), stage: Stage::Unknown },
        Refusal::UnknownTool,
        Refusal::ToolForbidden,
        Refusal::RoleForbidden("agent"),
        Refusal::SamePrincipal,
        Refusal::DistinctForbidden { id: OperationId::parse("a").unwrap(), stage: Stage::Unknown },
        Refusal::ActionUnresolved { blockers: Vec::new() },
        Refusal::BlockedByOperation { blockers: Vec::new() },
        Refusal::ApprovalRequired,
        Refusal::WrongState("prepared"),
        Refusal::FingerprintMismatch,
        Refusal::ChangedMeanwhile,
        Refusal::StaleClaim,
        Refusal::InvalidArguments(String::new()),
        Refusal::Paused,
        Refusal::LedgerRestored,
        Refusal::InvalidCursor,
    ];
    let errors = [
        StoreError::Unavailable(String::new()),
        StoreError::Full,
        StoreError::Poisoned(String::new()),
        StoreError::Uncertain(String::new()),
        StoreError::Corrupt(String::new()),
        StoreError::Unusable(String::new()),
    ];
    refusals.iter().for_each(is_in_the_list);
    for code in refusals.iter().map(Refusal::code).chain(errors.iter().map(StoreError::code)) {
        assert!(find(code).is_some(), "{code}");
    }
    for error in errors {
        // A problem that claims `no` must never stand for an error that may have written something.
        let claims_no = find(error.code()).unwrap().sent == Sent::No;
        assert!(!claims_no || error.wrote_nothing(), "{error}");
    }
}

/// Does not compile when the library gets another refusal: then it belongs into the list above.
fn is_in_the_list(refusal: &Refusal) {
    match refusal {
        Refusal::UnknownOperation
        | Refusal::UnknownNamed { .. }
        | Refusal::ReceiptExpired { .. }
        | Refusal::OperationIdReused { .. }
        | Refusal::UnknownTool
        | Refusal::ToolForbidden
        | Refusal::RoleForbidden(_)
        | Refusal::SamePrincipal
        | Refusal::DistinctForbidden { .. }
        | Refusal::ActionUnresolved { .. }
        | Refusal::BlockedByOperation { .. }
        | Refusal::ApprovalRequired
        | Refusal::WrongState(_)
        | Refusal::FingerprintMismatch
        | Refusal::ChangedMeanwhile
        | Refusal::StaleClaim
        | Refusal::InvalidArguments(_)
        | Refusal::Paused
        | Refusal::LedgerRestored
        | Refusal::AlreadyReplaced { .. }
        | Refusal::TooEarly { .. }
        | Refusal::InProgress
        | Refusal::NotAWorkerTool
        | Refusal::DeclarationMismatch { .. }
        | Refusal::InvalidCursor => {}
    }
}

#[test]
fn slugs_are_unique_sorted_by_status_and_well_formed() {
    for pair in CATALOGUE.windows(2) {
        assert!(pair[0].status <= pair[1].status, "{}", pair[1].slug);
    }
    for problem in CATALOGUE {
        let of_slug = CATALOGUE.iter().filter(|other| other.slug == problem.slug).count();
        assert_eq!(of_slug, 1, "{}", problem.slug);
        assert!(
            problem.slug.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'),
            "{}",
            problem.slug
        );
        assert!((400..=599).contains(&problem.status));
        assert!(problem.hint.ends_with('.') && problem.meaning.ends_with('.'), "{}", problem.slug);
        assert!(!problem.title.ends_with('.'));
    }
}

#[test]
fn an_unknown_slug_finds_its_neighbour() {
    assert_eq!(nearest("unknown-operatoin"), Some("unknown-operation"));
    assert_eq!(nearest("zzz"), None);
}
