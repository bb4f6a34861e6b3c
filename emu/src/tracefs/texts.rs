//! The texts of Linux's file `error_log`.

use trapline_probes::events::error::Code;
use trapline_probes::events::filter::FilterCode;
use trapline_probes::events::hist::HistCode;

/// The text for an error in a line of kprobe_events. `None` if Linux logs nothing.
pub fn of_event(code: Code) -> Option<&'static str> {
    #[rustfmt::skip]
    let text = match code {
        Code::MAXACT_NO_KPROBE => "Maxactive is not for kprobe",
        Code::BAD_MAXACT => "Invalid maxactive number",
        Code::MAXACT_TOO_BIG => "Maxactive is too big",
        Code::BAD_PROBE_ADDR => "Invalid probed address or symbol",
        Code::NON_UNIQ_SYMBOL => "The symbol is not unique",
        Code::BAD_RETPROBE => "Retprobe address must be an function entry",
        Code::BAD_ADDR_SUFFIX => "Invalid probed address suffix",
        Code::NO_GROUP_NAME => "Group name is not specified",
        Code::GROUP_TOO_LONG => "Group name is too long",
        Code::BAD_GROUP_NAME => "Group name must follow the same rules as C identifiers",
        Code::NO_EVENT_NAME => "Event name is not specified",
        Code::EVENT_TOO_LONG => "Event name is too long",
        Code::BAD_EVENT_NAME => "Event name must follow the same rules as C identifiers",
        Code::EVENT_TOO_BIG => "Event too big (too many fields?)",
        Code::RETVAL_ON_PROBE => "$retval is not available on probe",
        Code::BAD_STACK_NUM => "Invalid stack number",
        Code::BAD_ARG_NUM => "Invalid argument number",
        Code::BAD_VAR => "Invalid $-variable specified",
        Code::BAD_REG_NAME => "Invalid register name",
        Code::BAD_MEM_ADDR => "Invalid memory address",
        Code::BAD_IMM => "Invalid immediate value",
        Code::IMMSTR_NO_CLOSE => "String is not closed with '\"'",
        Code::FILE_ON_KPROBE => "File offset is not available with kprobe",
        Code::TOO_MANY_OPS => "Dereference is too much nested",
        Code::DEREF_NEED_BRACE => "Dereference needs a brace",
        Code::BAD_DEREF_OFFS => "Invalid dereference offset",
        Code::DEREF_OPEN_BRACE => "Dereference brace is not closed",
        Code::COMM_CANT_DEREF => "$comm can not be dereferenced",
        Code::BAD_FETCH_ARG => "Invalid fetch argument",
        Code::ARRAY_NO_CLOSE => "Array is not closed",
        Code::BAD_ARRAY_SUFFIX => "Array has wrong suffix",
        Code::BAD_ARRAY_NUM => "Invalid array size",
        Code::ARRAY_TOO_BIG => "Array number is too big",
        Code::BAD_TYPE => "Unknown type is specified",
        Code::BAD_STRING => "String accepts only memory argument",
        Code::BAD_SYMSTRING => "Symbol String doesn't accept data/userdata",
        Code::BAD_BITFIELD => "Invalid bitfield",
        Code::ARG_NAME_TOO_LONG => "Argument name is too long",
        Code::NO_ARG_NAME => "Argument name is not specified",
        Code::BAD_ARG_NAME => "Argument name must follow the same rules as C identifiers",
        Code::USED_ARG_NAME => "This argument name is already used",
        Code::ARG_TOO_LONG => "Argument expression is too long",
        Code::NO_ARG_BODY => "No argument expression",
        Code::BAD_INSN_BNDRY => "Probe point is not an instruction boundary",
        Code::FAIL_REG_PROBE => "Failed to register probe event",
        Code::DIFF_PROBE_TYPE => "Probe type is different from existing probe",
        Code::DIFF_ARG_TYPE => "Argument type or name is different from existing probe",
        Code::SAME_PROBE => "There is already the exact same probe event",
        _ => return None,
    };
    Some(text)
}

/// The text for an error in a filter.
pub fn of_filter(code: FilterCode) -> Option<&'static str> {
    let text = match code {
        FilterCode::FieldNotFound => "Field not found",
        FilterCode::InvalidOperator => "Invalid operator",
        FilterCode::IllegalFieldOperator => "Illegal operation for field type",
        FilterCode::ExpectNumber => "Expecting numeric field",
        FilterCode::ExpectString => "Expecting string field",
        FilterCode::MissingQuote => "Missing matching quote",
        FilterCode::OperandTooLong => "Operand too long",
        FilterCode::IllegalNumber => "Illegal integer value",
        FilterCode::InvalidValue => "Invalid value (did you forget quotes)?",
        FilterCode::TooManyOpen => "Too many '('",
        FilterCode::TooManyClosed => "Too few '('",
        FilterCode::TooManyTerms => "Too many terms in predicate expression",
        FilterCode::Meaningless => "Meaningless filter expression",
        FilterCode::NoFilter | FilterCode::Unreadable | FilterCode::TooLong => return None,
    };
    Some(text)
}

/// The text for an error in a `hist` trigger.
pub fn of_hist(code: HistCode) -> Option<&'static str> {
    let text = match code {
        HistCode::FieldNotFound => "Couldn't find field",
        HistCode::BadModifier => "Invalid field modifier",
        HistCode::EmptyAssignment => "Empty assignment",
        HistCode::BadSortModifier => "Invalid sort modifier",
        HistCode::EmptySortField => "Empty sort field",
        HistCode::TooManySortFields => "Too many sort fields (Max = 2)",
        HistCode::BadSortField => "Sort field must be a key or a val",
        HistCode::Exists => "Hist trigger already exists",
        HistCode::DoesNotExist => "Can't clear or continue a nonexistent hist trigger",
        HistCode::NamedMismatch => "Named hist trigger doesn't match existing named trigger (includes variables)",
        _ => return None,
    };
    Some(text)
}
