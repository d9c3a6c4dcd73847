//! Model list in the dialect of Messages: what its clients read at `GET /v1/models`.

use bytes::Bytes;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::json;

/// What says that a client speaks the dialect.
pub(in crate::server) const VERSION: &str = "anthropic-version";

#[derive(Deserialize)]
struct List {
    data: Vec<Card>,
}

#[derive(Deserialize)]
struct Card {
    id: String,
    #[serde(default)]
    created: i64,
}

/// The list as Anthropic has it; `OpenAI`'s where that cannot be read.
pub(in crate::server) fn list(list: Bytes) -> Bytes {
    let Ok(List { data }) = serde_json::from_slice(&list) else { return list };
    let models: Vec<_> = data.iter().map(model).collect();
    let object = json!({
        "data": models,
        "has_more": false,
        "first_id": data.first().map(|card| &card.id),
        "last_id": data.last().map(|card| &card.id),
    });
    object.to_string().into()
}

/// One model as Anthropic has it. What the gateway lists can be asked for, so its `lifecycle` is `active`: the vendor's
/// SDKs require the field since `anthropic` 2.14.
pub(in crate::server) fn card(card: Bytes) -> Bytes {
    match serde_json::from_slice::<Card>(&card) {
        Ok(read) => model(&read).to_string().into(),
        Err(_) => card,
    }
}

fn model(card: &Card) -> serde_json::Value {
    json!({
        "type": "model",
        "id": card.id,
        "display_name": card.id,
        "created_at": Timestamp::from_second(card.created).unwrap_or_default().to_string(),
        "lifecycle": "active",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_has_anthropic_s_shape() {
        let list = list(Bytes::from_static(
            br#"{"object":"list","data":[{"id":"a","created":951782400,"x":1},{"id":"b"}]}"#,
        ));
        let read: serde_json::Value = serde_json::from_slice(&list).unwrap();
        assert_eq!((&read["first_id"], &read["last_id"]), (&json!("a"), &json!("b")));
        assert_eq!(read["data"][1]["type"], "model");
        assert_eq!(read["data"][0]["created_at"], "2000-02-29T00:00:00Z");
        assert_eq!(read["data"][1]["lifecycle"], "active");
    }
}
