//! What slimming takes and what it must leave.

use super::*;

fn unchanged(text: &str) {
    assert_eq!(slim(text), text);
}

#[test]
fn the_usual_generated_schema() {
    let text = r#"{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{"user_name":{"title":"User Name","type":"string","minLength":1.0},"limit":{"anyOf":[{"type":"integer","maximum":9007199254740993},{"type":"null"}],"default":null,"title":"Limit","description":"How many"}},"required":["user_name"],"title":"searchArguments"}"#;
    let want = r#"{"type":"object","properties":{"user_name":{"type":"string","minLength":1.0},"limit":{"type":"integer","maximum":9007199254740993,"description":"How many"}},"required":["user_name"],"title":"searchArguments"}"#;
    assert_eq!(slim(text), want);
}

#[test]
fn other_dialects_stay() {
    unchanged(r#"{"$schema":"http://json-schema.org/draft-07/schema#","type":"object"}"#);
}

#[test]
fn titles_that_say_more_stay() {
    unchanged(r#"{"properties":{"q":{"title":"Query"},"items":{"items":{"title":"Items"}}}}"#);
}

#[test]
fn property_names_are_no_keywords() {
    unchanged(
        r#"{"properties":{"title":{"type":"string"},"default":{"type":"null"},"$schema":{},"anyOf":{}}}"#,
    );
    assert_eq!(
        slim(r#"{"properties":{"title":{"title":"Title"},"default":{"default":null,"type":"x"}}}"#),
        r#"{"properties":{"title":{},"default":{"type":"x"}}}"#
    );
}

#[test]
fn values_are_never_entered() {
    unchanged(
        r#"{"properties":{"a":{"const":{"default":null},"enum":[{"title":"a","default":null}],"examples":[{"properties":{"b":{"title":"B"}}}],"default":{"default":null}}}}"#,
    );
}

#[test]
fn null_stays_where_it_may_say_something() {
    // Required: null is the only way to say nothing.
    let required =
        r#"{"properties":{"a":{"anyOf":[{"type":"string"},{"type":"null"}]}},"required":["a"]}"#;
    unchanged(required);
    // No null default: leaving it out and null may differ.
    unchanged(r#"{"properties":{"a":{"anyOf":[{"type":"string"},{"type":"null"}]}}}"#);
    unchanged(
        r#"{"properties":{"a":{"anyOf":[{"type":"string"},{"type":"null"}],"default":"x"}}}"#,
    );
    // Not a property at all.
    unchanged(r#"{"items":{"anyOf":[{"type":"string"},{"type":"null"}]}}"#);
    // Whether it is required depends on something else: only the default goes.
    assert_eq!(
        slim(
            r#"{"properties":{"a":{"anyOf":[{"type":"string"},{"type":"null"}],"default":null}},"allOf":[{"required":["a"]}]}"#
        ),
        r#"{"properties":{"a":{"anyOf":[{"type":"string"},{"type":"null"}]}},"allOf":[{"required":["a"]}]}"#
    );
}

#[test]
fn null_stays_where_another_schema_requires_the_property() {
    for demand in [
        r##"{"allOf":[{"$ref":"#/$defs/B"},{"required":["a"]}]}"##,
        r##"{"allOf":[{"$ref":"#/$defs/B"},{"dependentRequired":{"b":["a"]}}]}"##,
    ] {
        let schema = |default: &str| {
            format!(
                r#"{{"$defs":{{"B":{{"properties":{{"a":{{"anyOf":[{{"type":"x"}},{{"type":"null"}}]{default}}}}}}}}},"items":{demand}}}"#
            )
        };
        assert_eq!(slim(&schema(r#","default":null"#)), schema(""));
    }
}

#[test]
fn clashes_keep_both_branches() {
    for (outer, inner) in [
        (r#""description":"outer""#, r#"{"type":"string","description":"inner"}"#),
        (r#""description":"outer""#, r##"{"$ref":"#/$defs/X"}"##),
        (r#""type":"string""#, r#"{"minLength":1}"#),
        (r#""x-a":1"#, "{}"),
        (r#""x-a":1"#, "true"),
        (r#""x-a":1"#, r#"{"default":1}"#),
    ] {
        let schema = |default: &str| {
            format!(
                r#"{{"properties":{{"a":{{"anyOf":[{inner},{{"type":"null"}}]{default},{outer}}}}}}}"#
            )
        };
        assert_eq!(slim(&schema(r#","default":null"#)), schema(""));
    }
    assert_eq!(
        slim(
            r##"{"properties":{"a":{"default":null,"anyOf":[{"type":"null"},{"$ref":"#/$defs/X"}],"title":"A"}}}"##
        ),
        r##"{"properties":{"a":{"$ref":"#/$defs/X"}}}"##
    );
}

#[test]
fn targets_of_references_stay_where_they_are() {
    for target in ["a", "a/anyOf/0", "%61/anyOf/0"] {
        let schema = |default: &str| {
            format!(
                r##"{{"properties":{{"a":{{"anyOf":[{{"type":"string"}},{{"type":"null"}}]{default}}},"b":{{"$ref":"#/properties/{target}"}}}}}}"##
            )
        };
        assert_eq!(slim(&schema(r#","default":null"#)), schema(""), "{target}");
    }
    unchanged(
        r##"{"properties":{"a":{"title":"A"},"b":{"const":{"$ref":"#/properties/a/title"}}}}"##,
    );
}

#[test]
fn definitions_are_slimmed_like_the_rest() {
    assert_eq!(
        slim(
            r##"{"$defs":{"Foo":{"title":"Foo","properties":{"x":{"anyOf":[{"type":"number"},{"type":"null"}],"default":null}}}},"properties":{"f":{"$ref":"#/$defs/Foo"}}}"##
        ),
        r##"{"$defs":{"Foo":{"properties":{"x":{"type":"number"}}}},"properties":{"f":{"$ref":"#/$defs/Foo"}}}"##
    );
}

#[test]
fn odd_and_deep_texts_stay() {
    unchanged(r#"{"properties":{"a":{"title":"A","title":"A"}}}"#);
    unchanged(r#"{"properties":[{"title":"A"}],"anyOf":{"default":null}}"#);
    unchanged("true");
    let deep = format!("{}{}", r#"{"items":"#.repeat(3000), "{}".to_owned() + &"}".repeat(3000));
    unchanged(&deep);
    let spaced = "{ \"type\" : \"object\",\n \"properties\" : { \"a\" : { \"type\" : [\"x\"] } } }";
    unchanged(spaced);
}
