//! What must hold of the cascade, rule by rule.
